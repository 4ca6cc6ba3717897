#!/bin/sh
# The C program of docs/quickstart_cpp.md compiles without a warning, and runs.
#
#   sh readme_example.sh SOURCE_FOLDER C_COMPILER FOLDER_OF_LIBLSSAR
set -eu
source=$1
compiler=$2
library=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```/ { inside = ($0 == "```c"); next } inside' "$source/docs/quickstart_cpp.md" >"$work/example.c"
[ -s "$work/example.c" ] || { echo "no C program found in docs/quickstart_cpp.md" >&2; exit 1; }
"$compiler" -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$source/include" \
  "$work/example.c" -o "$work/example" -L"$library" -llssar -Wl,-rpath,"$library"
LSSAR_CACHE_DIR="$work/cache" "$work/example" | tee "$work/out"
grep -q '^o\[0\] = -*[0-9]' "$work/out"
