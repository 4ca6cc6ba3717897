#!/bin/sh
# The program example_gpt2: its loss falls, the virtual device has the same losses, wrong options are
# named.
#
#   sh gpt2_program.sh PROGRAM
set -eu
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

losses() { sed -n 's/.*loss \([0-9.]*\).*/\1/p' "$1"; }

"$program" --device virtual --steps 2 >"$work/virtual.txt"
test "$(losses "$work/virtual.txt" | wc -l)" = 3 # two steps, and the validation
grep -q "^given      .... met ..... $" "$work/virtual.txt"
if "$program" --device cpu --steps 20 >"$work/cpu.txt" 2>"$work/error.txt"; then
  losses "$work/cpu.txt" >"$work/cpu_losses.txt"
  losses "$work/virtual.txt" | head -n 1 >"$work/virtual_loss.txt"
  # Steps 1 and 20, and the validation.
  awk 'NR == FNR { other = $1; next }
       { loss[FNR] = $1 }
       END { d = loss[1] - other; exit !(FNR == 3 && d < 0.001 && d > -0.001 &&
               loss[1] > 4.7 && loss[2] < 3 && loss[3] < 3) }' \
    "$work/virtual_loss.txt" "$work/cpu_losses.txt"
else
  grep -Eq "AVX2|compiler" "$work/error.txt" # the CPU device cannot be opened here
fi
for wrong in "--device gpu" "--steps 0" "--p x" "--depth 3"; do
  code=0
  # shellcheck disable=SC2086
  "$program" $wrong 2>"$work/error.txt" || code=$?
  test "$code" = 2
  grep -q "must be" "$work/error.txt"
done
