#!/bin/sh
# The program example_gpt from its options to its JSON and the plot of that.
#
#   sh gpt_program.sh PROGRAM SOURCE_FOLDER
set -eu
program=$1
source_folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for attention in lssar softmax; do
  "$program" --train "$source_folder/LICENSE" --validation "$source_folder/LICENSE" \
    --attention "$attention" --device virtual --steps 3 --windows 2 --length 16 --head-dim 8 \
    --json "$work/$attention.json" >"$work/$attention.txt"
  grep -q "validation at length   128: [0-9]" "$work/$attention.txt"
done
python3 "$source_folder/examples/gpt/plot.py" -o "$work/plot.svg" "$work/lssar.json" \
  "$work/softmax.json"
python3 - "$work/plot.svg" <<'END'
import sys
import xml.etree.ElementTree as tree

texts = [node.text for node in tree.parse(sys.argv[1]).iter() if node.tag.endswith("text")]
assert "LSSAR, p = 15" in texts and "softmax" in texts, texts
END
if "$program" --steps 3 2>"$work/error.txt"; then exit 1; fi
grep -q -- "--train and --validation are required" "$work/error.txt"
