#!/bin/sh
# Makes liblssar_kernels.so, the CPU kernels of common problems, for machines without the LLVM
# compiler:
#
#   sh tools/ship_kernels.sh BUILD OUTPUT [PROBLEMS]
#
# BUILD: a build folder with the LLVM compiler. OUTPUT: the library; liblssar.so finds it beside
# itself. PROBLEMS: one JSON object a line, default tools/ship_kernels/common.jsonl. Lengths of 0 are
# given at run time, as the Python package does it.
#
# Exit code: 0; 1 a problem is wrong or does not compile; 2 wrong usage; 3 a tool is missing.
set -eu

[ $# -eq 2 ] || [ $# -eq 3 ] || { sed -n '5p' "$0" | cut -c3- >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
output=$2
problems=${3:-$root/tools/ship_kernels/common.jsonl}
for tool in cmake cc ld objcopy; do
  command -v "$tool" >/dev/null 2>&1 || {
    printf 'ship_kernels: %s is missing; sh tools/setup.sh test installs it\n' "$tool" >&2
    exit 3
  }
done

cmake --build "$build" --target lssar_ship_kernels lssar_llvm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LSSAR_LLVM_PATH=$build/lib/liblssar_llvm.so "$build/bin/lssar_ship_kernels" "$problems" "$folder"

# All kernels name their functions alike. Entries are renamed, and the rest becomes local. Groups are
# dissolved first, because the linker keeps one of the groups that share a name.
objects=
numbers=$(cut -d' ' -f1 "$folder/names" | sort -un)
for number in $numbers; do
  set --
  while read -r of entry symbol; do
    [ "$of" = "$number" ] && set -- "$@" --redefine-sym "$entry=$symbol" --keep-global-symbol "$symbol"
  done <"$folder/names"
  ld -r --force-group-allocation -o "$folder/$number.whole.o" "$folder/$number.o"
  objcopy "$@" "$folder/$number.whole.o" "$folder/$number.renamed.o"
  objects="$objects $folder/$number.renamed.o"
done

printf '{ global: lssar_shipped_kernels; local: *; };\n' >"$folder/map"
# It is made beside the target and moved there, so that a failure leaves the old one.
mkdir -p "$(dirname "$output")"
# shellcheck disable=SC2086  # a list of files without blanks
cc -shared -fPIC -O1 -fvisibility=hidden -s -I"$root" -Wl,-z,noexecstack \
  -Wl,--version-script="$folder/map" -o "$output.partial" "$folder/table.c" $objects
mv "$output.partial" "$output"
ls -l "$output"
