#!/bin/sh
# The texts that example_gpt learns from and is measured on: the licences that Debian and Ubuntu
# install for reference, some to learn and others to be measured on.
#
#     sh examples/gpt/text.sh FOLDER      makes FOLDER/train.txt and FOLDER/validation.txt
set -eu
out=${1:?"usage: text.sh FOLDER"}
licences=${LICENCES:-/usr/share/common-licenses}
mkdir -p "$out"
concatenate() {
  for name in "$@"; do
    cat "$licences/$name"
    echo
  done
}
concatenate Artistic BSD GFDL-1.2 GFDL-1.3 GPL-1 GPL-2 GPL-3 LGPL-2 LGPL-2.1 LGPL-3 > "$out/train.txt"
for name in Apache-2.0 CC0-1.0 MPL-1.1 MPL-2.0; do
  head -c 4100 "$licences/$name"
done > "$out/validation.txt"
wc -c "$out/train.txt" "$out/validation.txt"
