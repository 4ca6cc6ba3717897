#!/bin/sh
# Fuzzes one reader with libFuzzer, and adds what it found to the reader's corpus.
#
#   tests/fuzz/fuzz.sh BUILD CORPUS SECONDS [LIBFUZZER-OPTION ...]
#
# BUILD is a build folder with LSSAR_FUZZ (CMakeLists.txt), CORPUS the name of a file in corpora/. It
# begins with the corpus and with seeds made anew, and keeps the inputs that reach code which those
# do not reach. An input that fails is left in BUILD/fuzz_artifacts, and then nothing is added. Once
# the fault is fixed, give the input a name and keep it:
#   BUILD/bin/fuzz_corpus add tests/fuzz/corpora/CORPUS.corpus NAME
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 3 ] || [ ! -f "$here/corpora/$2.corpus" ]; then
  allowed=$(cd "$here/corpora" && ls | sed 's/\.corpus$//' | paste -sd ' ')
  printf 'usage: fuzz.sh BUILD CORPUS SECONDS [LIBFUZZER-OPTION ...]; corpora: %s\n' "$allowed" >&2
  exit 2
fi
bin=$(cd "$1" && pwd)/bin
artifacts=$(dirname "$bin")/fuzz_artifacts
corpus=$here/corpora/$2.corpus
fuzzer=$bin/$2_fuzzer
name=$2 seconds=$3
shift 3

case $name in
  ptx) longest=81920 ;;  # what the harness does not skip
  *) longest=65536 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$bin/fuzz_corpus" unpack "$corpus" "$work/corpus"
case $name in
  ptx) "$bin/ptx_seeds" "$work/seeds" "$here"/../virtual/data/*.ptx ;;
  *) "$bin/reader_seeds" "$name" "$work/seeds" ;;
esac
mkdir -p "$work/found" "$work/known" "$work/new" "$artifacts"
if ! "$fuzzer" -max_total_time="$seconds" -max_len=$longest -timeout=10 \
    -artifact_prefix="$artifacts/$name-" "$@" "$work/found" "$work/seeds" "$work/corpus"; then
  printf 'fuzz.sh: %s failed: see %s\n' "$name" "$artifacts" >&2
  exit 1
fi

# A merge writes into its first folder what the others reach beyond it.
cp "$work/seeds"/* "$work/corpus"/* "$work/known"
"$fuzzer" -merge=1 -use_counters=0 -max_len=$longest "$work/known" "$work/found"
for input in "$work/known"/*; do
  file=$(basename "$input")
  [ -e "$work/seeds/$file" ] || [ -e "$work/corpus/$file" ] || mv "$input" "$work/new"
done
"$bin/fuzz_corpus" add "$corpus" "$work/new"
