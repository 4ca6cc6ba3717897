#!/bin/sh
# Shows lssar at work; tools/setup.sh demo runs it after the build.
#
#   sh tools/demo.sh [COMMAND]    COMMAND: the lssar command (default build/release/bin/lssar)
#
# Exit code: that of the last step that failed, as in `lssar --help`.
set -eu

lssar=${1:-build/release/bin/lssar}
problem="--causal --dtype bf16 --p 15 --head-dim 64 --heads 4 --seq 512"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# A cache of its own, empty at first, so that filling and hitting can be seen.
export LSSAR_CACHE_DIR="$work/cache"

title() {
  printf '\n== %s\n\n' "$*"
}

show() {
  printf '$ lssar %s\n' "$*"
  "$lssar" "$@"
}

title "What is on this machine"
show doctor

title "The source generated for the forward pass (its first lines; -o FILE writes all of it)"
# shellcheck disable=SC2086  # a list of options, split on purpose
"$lssar" emit --pass forward $problem -o "$work/forward.cu"
printf '$ lssar emit --pass forward %s\n' "$problem"
sed -n '1,40p' "$work/forward.cu"
printf '... %s lines in all\n' "$(wc -l <"$work/forward.cu" | tr -d ' ')"

title "Forward, then backward: compiled, run, compared with the float64 reference"
# shellcheck disable=SC2086
show verify --pass forward $problem
# shellcheck disable=SC2086
show verify --pass backward $problem

title "Once more: nothing is compiled, the kernels come from the cache"
# shellcheck disable=SC2086
show verify --pass backward $problem
printf '\nThe cache held %s entries (%s); your own is where lssar doctor says.\n' \
  "$(find "$LSSAR_CACHE_DIR" -type f | wc -l | tr -d ' ')" \
  "$(du -sh "$LSSAR_CACHE_DIR" | cut -f1)"
