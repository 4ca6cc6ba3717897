#!/bin/sh
# Every LSSAR_ variable that the sources or scripts read is in a table of docs/environment.md, and every
# variable of the tables is read somewhere. `lssar doctor` knows those of the tables.
#
#   sh environment_page.sh SOURCE_FOLDER
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016  # the patterns are no expansions
# C++ reads them by name, as a whole string; scripts as $NAME. Tests set them.
{
  grep -rhoE '"LSSAR_[A-Z_]+"' --include='*.cpp' --include='*.h' --include='*.c' \
    --exclude=known_variables.h --exclude-dir='build*' */ | tr -d '"'
  grep -rhoE '"LSSAR_[A-Z_]+"' --include='*.py' python/lssar | tr -d '"'
  grep -rhoE '\$\{?LSSAR_[A-Z_]+' --include='*.sh' tools | tr -d '${'
} | grep -vE '^LSSAR_UNROLL$' | sort -u >"$work/read"  # a macro of the templates
# shellcheck disable=SC2016
sed -n 's/^| `\(LSSAR_[A-Z_]*\)` |.*/\1/p' docs/environment.md | sort -u >"$work/documented"

[ -s "$work/read" ] || { echo "no variable found in the sources: the search is wrong" >&2; exit 1; }
if ! diff "$work/documented" "$work/read" >"$work/difference"; then
  echo "the variables of docs/environment.md (<) and what the sources read (>) differ:" >&2
  cat "$work/difference" >&2
  exit 1
fi
grep -oE 'LSSAR_[A-Z_]+' tools/lssar/commands/known_variables.h | sort -u >"$work/known"
if ! diff "$work/documented" "$work/known" >"$work/difference"; then
  echo "the variables of docs/environment.md (<) and of known_variables.h (>) differ:" >&2
  cat "$work/difference" >&2
  exit 1
fi
