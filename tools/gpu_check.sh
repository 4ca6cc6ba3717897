#!/bin/sh
# Everything that needs a GPU, in less than 8 minutes, into one JSON file: the tests labelled gpu,
# the golden cases, `lssar verify` over a grid, NVIDIA's compute-sanitizer over small cases, and the
# benchmarks.
# Runs from a bundle (tools/bundle.sh) or, after a build, from the source tree.
#
#   sh gpu_check.sh [FILE]                       default gpu_check.json
#   LSSAR_BUILD_DIR=DIR sh tools/gpu_check.sh    another build folder than build/release
#
# Exit code: 0 all passed, 1 something did not (see the file), 3 no GPU here, or no command.
# What finds the time of its part used up is recorded as "out of time" and counts as not passed.
set -u

# Seconds a part may take: with the time to start and to write, below 480 together.
tests_s=90
golden_s=70
verify_s=90
sanitizer_s=110
bench_s=85

# --- One case: what the parts below start, several at a time --------------------------------------

# JSON is written by hand: a GPU machine may have neither jq nor Python.
json_string() {
  printf '%s' "$1" | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' \
    -e 's/	/ /g' | awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }'
}

# run_case DEADLINE FILE: FILE sets the case's command and `fields`, what the result says of it.
# Writes FILE.json, one line.
run_case() {
  deadline=$1
  file=$2
  figures=""
  # shellcheck source=/dev/null
  . "$file"
  left=$((deadline - $(date +%s)))
  if [ "$left" -le 0 ]; then
    result="out of time"
    : >"$file.log"
  else
    timeout "$left" "$@" >"$file.log" 2>&1
    case $? in
      0) result=passed ;;
      124) result="out of time" ;;
      *) result=failed ;;
    esac
  fi
  # GoogleTest counts, where there are any. A GPU test that only skipped on this machine failed.
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$file.log")
  skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$file.log")
  if [ -n "$passed$skipped" ]; then
    fields="$fields, \"passed\": ${passed:-0}, \"skipped\": ${skipped:-0}"
    if [ "$result" = passed ] && [ "${passed:-0}" -eq 0 ]; then result=failed; fi
  fi
  # The table of lssar verify: the worst relative error of its tensors, and the times.
  worst=$(sed -n 's/^\(o\|saved_o\|dq\|dk\|dv\)  *([^)]*) *\([^ ]*\) .*/\2/p' "$file.log" | sort -g |
    tail -n 1)
  if [ -n "$worst" ]; then
    times=$(sed -n 's/.*| ran in //p' "$file.log" | tr '\n' ';')
    fields="$fields, \"worst_relative_l2\": \"$worst\", \"ran_in\": \"$(json_string "$times")\""
  fi
  if [ "$result" != passed ]; then
    fields="$fields, \"log\": \"$(json_string "$(tail -n 15 "$file.log")")\""
  elif [ -n "$figures" ] && [ -s "$figures" ]; then
    fields="$fields, \"figures\": $(tr '\n' ' ' <"$figures")"
  fi
  printf '{"result": "%s", %s}\n' "$result" "$fields" >"$file.json"
}

if [ "${1:-}" = --case ]; then
  run_case "$2" "$3"
  exit 0
fi

# --- What there is --------------------------------------------------------------------------------

here=$(cd "$(dirname "$0")" && pwd)
output=${1:-gpu_check.json}
if [ -d "$here/bin" ]; then
  root=$here
  LSSAR_TEST_DATA="$root/data/golden"
  export LSSAR_TEST_DATA
  commit=$(cat "$root/COMMIT")
else
  root=${LSSAR_BUILD_DIR:-$here/../build/release}
  commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)
fi
lssar="$root/bin/lssar"
if [ ! -x "$lssar" ]; then
  printf 'gpu_check: %s: no command there; build first\n' "$lssar" >&2
  exit 3
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export LSSAR_CACHE_DIR="$work/cache"
started=$(date +%s)
parallel=$(nproc)
[ "$parallel" -le 8 ] || parallel=8

"$lssar" verify --device cuda --seq 16 >"$work/first" 2>&1
if [ $? -eq 3 ]; then
  printf 'gpu_check: %s\n' "$(sed -n 's/^lssar: //p' "$work/first" | head -n 1)" >&2
  exit 3
fi
"$lssar" doctor >"$work/doctor" 2>&1

# begin_part NAME: its cases go to the folder $part.
begin_part() {
  printf 'gpu_check: %s\n' "$1"
  part="$work/$1"
  mkdir -p "$part"
  num_cases=0
}

# add_case FIELDS COMMAND...: words without quotes or spaces, but for $lssar's and $work's paths.
add_case() {
  num_cases=$((num_cases + 1))
  file="$part/$(printf '%03d' $num_cases)"
  printf 'fields='\''%s'\''\n' "$1" >"$file"
  shift
  printf 'set --' >>"$file"
  for word in "$@"; do printf ' "%s"' "$word" >>"$file"; done
  printf '\n' >>"$file"
}

# run_cases SECONDS AT_ONCE
run_cases() {
  deadline=$(($(date +%s) + $1))
  find "$part" -type f -name '[0-9][0-9][0-9]' | sort |
    xargs -r -P "$2" -I '{}' sh "$here/gpu_check.sh" --case "$deadline" '{}'
}

# The results of a part, as the elements of a JSON list.
results_of() {
  [ -d "$work/$1" ] || return 0
  find "$work/$1" -type f -name '*.json' | sort | xargs -r cat |
    sed -e 's/^/    /' -e '$!s/$/,/'
}

# --- Tests ----------------------------------------------------------------------------------------

begin_part tests
while read -r label name; do
  [ "$label" != gpu ] || add_case "\"name\": \"$name\"" "$root/bin/$name" --gtest_brief=1
done <"$root/tests.txt"
num_tests=$num_cases
run_cases $tests_s 1

# The golden cases, each once: their other settings are for the virtual device. The kernels differ,
# so compiling is most of it, and it is shared out.
begin_part golden
shards=8
while [ "$num_cases" -lt $shards ]; do
  add_case "\"shard\": $num_cases" env LSSAR_TEST_DEVICE=cuda GTEST_TOTAL_SHARDS=$shards \
    GTEST_SHARD_INDEX=$num_cases "$root/bin/golden_test" --gtest_brief=1 \
    '--gtest_filter=*/*_nvrtc_sm_80'
done
run_cases $golden_s "$parallel"

# --- lssar verify over a grid ---------------------------------------------------------------------

# What the sanitizer runs too: small, and together they reach every kind of kernel.
printf '{"dq_mode": "atomic"}\n' >"$work/atomic.json"
# What a GPU with kernels of its own does not take by itself.
printf '{"variant": "portable"}\n' >"$work/portable.json"
small_cases="--seq 70 --seq-k 90 --heads 2 --kv-heads 1 --head-dim 64
--seq 70 --head-dim 128 --no-causal --dtype fp16 --p 3
--seq 33 --head-dim 32 --dtype fp32
--seq 70 --head-dim 64 --p 0
--seq 70 --head-dim 64 --schedule $work/atomic.json"

grid() {
  printf '%s\n' "$small_cases"
  for dim in 32 64 96 128 192 256; do
    for dtype in bf16 fp16 fp32; do
      printf -- '--head-dim %s --dtype %s --seq 200\n' $dim $dtype
    done
    printf -- '--head-dim %s --no-causal --seq 333\n' $dim
  done
  for p in 1 2 7 64; do printf -- '--head-dim 64 --p %s --seq 150\n' $p; done
  for data in peaky clustered opposed ties near-ties zeros huge; do
    printf -- '--head-dim 64 --seq 120 --data %s\n' $data
  done
  for dim in 64 128 256; do
    printf -- '--head-dim %s --seq 200 --schedule %s\n' $dim "$work/portable.json"
  done
  cat <<'END'
--head-dim 128 --heads 4 --kv-heads 2 --batch 2 --seq 129
--head-dim 64 --heads 4 --kv-heads 1 --seq 100
--head-dim 64 --seq 17 --seq-k 300
--head-dim 64 --seq 300 --seq-k 200
--head-dim 64 --seq 1 --seq-k 400
--head-dim 64 --head-dim-v 128 --seq 130 --no-causal
--head-dim 72 --seq 65
--head-dim 64 --seq 130 --runtime-lengths --offset 0.5
END
}

begin_part verify
grid >"$work/grid"
while read -r options; do
  for pass in forward backward; do
    # shellcheck disable=SC2086  # options, split on purpose
    add_case "\"options\": \"--pass $pass $options\"" \
      "$lssar" verify --device cuda --pass $pass $options
  done
done <"$work/grid"
run_cases $verify_s "$parallel"

# --- compute-sanitizer ----------------------------------------------------------------------------

begin_part sanitizer
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
sanitizer_missing=0
if [ -x "$sanitizer" ]; then
  printf '%s\n' "$small_cases" >"$work/small"
  for tool in memcheck racecheck initcheck synccheck; do
    while read -r options; do
      # shellcheck disable=SC2086
      add_case "\"tool\": \"$tool\", \"options\": \"$options\"" \
        "$sanitizer" --tool $tool --error-exitcode 9 \
        "$lssar" verify --device cuda -q --pass backward $options
    done <"$work/small"
  done
  run_cases $sanitizer_s "$parallel"
else
  printf 'gpu_check: compute-sanitizer is missing: it is part of the CUDA toolkit\n' >&2
  sanitizer_missing=1
fi

# --- Benchmarks: alone on the machine -------------------------------------------------------------

begin_part benchmarks
for program in "$root"/bin/*_bench; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  add_case "\"name\": \"$name\"" "$program" "--benchmark_out=$part/$name.figures" \
    --benchmark_out_format=json
  printf 'figures="%s"\n' "$part/$name.figures" >>"$file"
done
run_cases $bench_s 1

# --- The file -------------------------------------------------------------------------------------

failures=$(for name in tests golden verify sanitizer benchmarks; do results_of $name; done |
  grep -cv '^ *{"result": "passed"')
failures=$((failures + sanitizer_missing))
if [ "$num_tests" -eq 0 ]; then
  printf 'gpu_check: no test is labelled gpu\n' >&2
  failures=$((failures + 1))
fi
gpu=$(sed -n 's/^  cuda 0 *//p' "$work/doctor" | head -n 1)
nvrtc=$(sed -n 's/^  nvrtc *//p' "$work/doctor" | head -n 1)
cat >"$output" <<END
{
  "commit": "$(json_string "$commit")",
  "date": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "gpu": "$(json_string "${gpu%%,*}")",
  "driver": "$(json_string "${gpu##*driver }")",
  "nvrtc": "$(json_string "${nvrtc%% *}")",
  "doctor": "$(json_string "$(cat "$work/doctor")")",
  "seconds": $(($(date +%s) - started)),
  "failures": $failures,
  "tests": [
$(results_of tests)
  ],
  "golden": [
$(results_of golden)
  ],
  "verify": [
$(results_of verify)
  ],
  "sanitizer": [
$(results_of sanitizer)
  ],
  "benchmarks": [
$(results_of benchmarks)
  ]
}
END
printf 'gpu_check: %s failures; results in %s\n' "$failures" "$output"
[ "$failures" -eq 0 ]
