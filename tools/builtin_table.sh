#!/bin/sh
# Writes autotune/builtin_table.jsonl anew: the schedules that are built into the library, for
# A100 (sm_80) and H100/H200 (sm_90a). Run it when the test BuiltinTable says that the generator
# has moved on. About 15 minutes on two cores.
#
#   sh tools/builtin_table.sh [COMMAND [BUDGET]]    COMMAND: the lssar command (default
#                                                   build/release/bin/lssar); BUDGET: default quick
#
# What it writes is predicted: the cost model's word, with every winner compiled, checked and counted
# on the virtual device. Records measured on a GPU come from `lssar tune` there and are merged in:
#
#   lssar table merge autotune/builtin_table.jsonl MEASURED -o NEW
#
# and predicted records of a bucket go when it has a measured one.
#
# Exit code: that of the step that failed, as in `lssar --help`. The old table stays unless all went
# well.
set -eu

lssar=${1:-build/release/bin/lssar}
budget=${2:-quick}
table="$(dirname "$0")/../autotune/builtin_table.jsonl"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export LSSAR_CACHE_DIR="$work/cache"

# A JSON array: head dims x causal, with $1 as further fields.
problems() {
  separator='['
  for head_dim in 64 128 256; do
    for causal in true false; do
      printf '%s{"head_dim": %d, "head_dim_v": %d, "causal": %s, "dtype": "bf16",' \
        "$separator" "$head_dim" "$head_dim" "$causal"
      printf '%s "p": 15, "seq_q": 4096, "seq_k": 4096, "batch": 4, "heads": 16, "kv_heads": 16}' "$1"
      separator=',
'
    done
  done
  printf ']\n'
}

problems '' >"$work/problems.json"
problems ' "pass": "backward",' >"$work/backward.json"
# Records that still hold are not made again.
cp "$table" "$work/table.jsonl"
for target in sm_80 sm_90a; do
  "$lssar" tune --device virtual --target "$target" --problems "$work/problems.json" --all-passes \
    --budget "$budget" --table "$work/table.jsonl"
  # Sums of dq in any order: other schedules, of the backward alone.
  "$lssar" tune --device virtual --target "$target" --problems "$work/backward.json" \
    --determinism any --budget "$budget" --table "$work/table.jsonl"
done
"$lssar" table --table "$work/table.jsonl" prune
"$lssar" table --table "$work/table.jsonl" export --chosen "$work/chosen.jsonl"
mv "$work/chosen.jsonl" "$table"
"$lssar" table --table "$table" ls
