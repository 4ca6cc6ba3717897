#!/bin/sh
# Everything that needs a GPU, in less than 15 minutes, into one JSON file, in these parts:
#   first       on sm_90a: forms of wgmma that nothing else has tested (see there)
#   tests       the tests labelled gpu
#   golden      the golden cases
#   schedules   on sm_90a: what a schedule of its kernels can vary
#   verify      `lssar verify` over a grid
#   python      the Python package, where python3 has a torch that finds the GPU
#   sanitizer   NVIDIA's compute-sanitizer over small cases
#   probes      on sm_90a: questions of tools/probes.json, each 5 to 20 s, the most useful first
#   benchmarks
# All but the probes take less than 10 minutes.
# Runs from a bundle (tools/bundle.sh) or, after a build, from the source tree.
#
#   sh gpu_check.sh [FILE [PART...]]             default gpu_check.json, all parts
#   LSSAR_BUILD_DIR=DIR sh tools/gpu_check.sh    another build folder than build/release
#
# Exit code: 0 all passed, 1 something did not (see the file), 2 wrong usage, 3 no GPU here, or no
# command, 130 a signal stopped it.
# A case that lacks what is not ours (JAX) is recorded as "not here" and is no failure. A case
# without time left in its part is recorded as "out of time" and counts as not passed. So is a case
# that a signal (Ctrl-C, timeout) ends; the parts after it are empty then.
# FILE is also written after each probe. A run with the same FILE leaves out the probes that it has
# of this GPU, driver, commit, program and question, even if the run before was killed.
set -u

all_parts="first tests golden schedules verify python sanitizer probes benchmarks"
# Seconds that a part may take. With starting and writing they are less than 600 together, without
# the probes.
first_s=50
tests_s=90
golden_s=60
schedules_s=120
verify_s=70
python_s=40
sanitizer_s=80
bench_s=60
probes_s=300
probe_s=60

# --- One case; the parts below start several at a time --------------------------------------------

# JSON is written by hand: a GPU machine may have neither jq nor Python.
json_string() {
  printf '%s' "$1" | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' \
    -e 's/	/ /g' | awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }'
}

# sample_gpu FILE: MHz of the SMs and of the memory, W and degrees Celsius, five times a second.
# Sets $sampler.
sample_gpu() {
  which=${CUDA_VISIBLE_DEVICES:-0}
  nvidia-smi -i "${which%%,*}" -lms 200 --format=csv,noheader,nounits \
    --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu >"$1" 2>/dev/null &
  sampler=$!
}

# The samples as elements of a JSON list. A line with anything else than numbers is left out.
gpu_states() {
  awk -F ', ' 'NF == 4 && /^[0-9., ]+$/ {
    printf "%s{\"sm_mhz\": %s, \"mem_mhz\": %s, ", comma, $1, $2
    printf "\"watts\": %s, \"celsius\": %s}", $3, $4
    comma = ", "
  }' "$1"
}

# run_case DEADLINE FILE: FILE sets the case's command, and `fields`, which the result repeats.
# Writes FILE.json, one line.
run_case() {
  deadline=$1
  file=$2
  figures="" states="" sampler=""
  # shellcheck source=/dev/null
  . "$file"
  left=$((deadline - $(date +%s)))
  if [ "$left" -le 0 ]; then
    result="out of time"
    : >"$file.log"
  else
    # In a process group of its own, which a signal of this one does not reach.
    [ -z "$states" ] || sample_gpu "$states"
    timeout "$left" "$@" >"$file.log" 2>&1 &
    running=$!
    # shellcheck disable=SC2086  # the sampler may be none
    trap 'kill "$running" $sampler; exit 1' INT TERM  # run_cases writes the result then
    wait "$running"
    status=$?
    [ -z "$sampler" ] || kill "$sampler" 2>/dev/null
    case $status in
      0) result=passed ;;
      77) result="not here" ;;
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
    [ -z "$states" ] || fields="$fields, \"gpu_states\": [$(gpu_states "$states")]"
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
[ $# -eq 0 ] || shift
parts=${*:-$all_parts}
for part in $parts; do
  case " $all_parts " in
    *" $part "*) ;;
    *)
      printf 'gpu_check: part %s: allowed are %s\n' "$part" "$all_parts" >&2
      exit 2
      ;;
  esac
done
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
stopped=false
trap 'stopped=true' INT TERM
export LSSAR_CACHE_DIR="$work/cache"
# The checks must not depend on this machine's tuning table.
export LSSAR_TUNING_TABLE=none
started=$(date +%s)
num_tests=1 sanitizer_missing=0
parallel=$(nproc)
[ "$parallel" -le 16 ] || parallel=16

"$lssar" verify --device cuda --seq 16 >"$work/first" 2>&1
if [ $? -eq 3 ]; then
  printf 'gpu_check: %s\n' "$(sed -n 's/^lssar: //p' "$work/first" | head -n 1)" >&2
  exit 3
fi
"$lssar" doctor >"$work/doctor" 2>&1
target=$(sed -n 's/.* for \(sm_[0-9a-z]*\), .*/\1/p' "$work/first" | head -n 1)
gpu=$(sed -n 's/^  cuda 0 *//p' "$work/doctor" | head -n 1)
# `driver` is the CUDA version that the driver supports; this is the driver's own.
driver_version=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null |
  head -n 1)
[ -n "$driver_version" ] || driver_version=$(sed -n 's/^NVRM version://p' \
  /proc/driver/nvidia/version 2>/dev/null | grep -o ' [0-9][0-9]*\.[0-9.]* ' | tr -d ' ')
nvrtc=$(sed -n 's/^  nvrtc *//p' "$work/doctor" | head -n 1)
hopper_programs="hopper_schedules_test epsilon_test packed_heads_test"

# begin_part NAME: its cases go to the folder $part. False if the part is not wanted.
begin_part() {
  [ $stopped = false ] || return 1
  case " $parts " in *" $1 "*) ;; *) return 1 ;; esac
  printf 'gpu_check: %s\n' "$1"
  part="$work/parts/$1"
  mkdir -p "$part"
  num_cases=0
}

# The same for a part of Hopper's kernels; also false on other GPUs.
begin_hopper_part() {
  begin_part "$1" || return 1
  [ "$target" != sm_90a ] || return 0
  printf 'gpu_check: %s: nothing to do: it is for sm_90a, this GPU is %s\n' "$1" "$target"
  return 1
}

# add_case FIELDS COMMAND...: neither may have a single quote.
add_case() {
  num_cases=$((num_cases + 1))
  file="$part/$(printf '%03d' $num_cases)"
  printf 'fields='\''%s'\''\n' "$1" >"$file"
  shift
  printf 'set --' >>"$file"
  for word in "$@"; do printf " '%s'" "$word" >>"$file"; done
  printf '\n' >>"$file"
}

# run_cases SECONDS AT_ONCE
run_cases() {
  deadline=$(($(date +%s) + $1))
  find "$part" -type f -name '[0-9][0-9][0-9]' | sort |
    xargs -r -P "$2" -I '{}' sh "$here/gpu_check.sh" --case "$deadline" '{}'
  # Cases that a signal ended before they wrote a result.
  for file in "$part"/[0-9][0-9][0-9]; do
    if [ -f "$file" ] && [ ! -f "$file.json" ]; then sh "$here/gpu_check.sh" --case 0 "$file"; fi
  done
}

# The results of a part, as the elements of a JSON list.
results_of() {
  [ -d "$work/parts/$1" ] || return 0
  find "$work/parts/$1" -type f -name '*.json' | sort | xargs -r cat |
    sed -e 's/^/    /' -e '$!s/$/,/'
}

# --- The file -------------------------------------------------------------------------------------

count_failures() {
  failures=$(for name in $all_parts; do results_of "$name"; done |
    grep -cvE '^ *\{"result": "(passed|not here)"')
  failures=$((failures + sanitizer_missing))
  [ "$num_tests" -gt 0 ] || failures=$((failures + 1))
}

# write_file STOPPED: whole or not at all, whenever the machine stops.
write_file() {
  count_failures
  cat >"$output.partial" <<END
{
  "commit": "$(json_string "$commit")",
  "date": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "gpu": "$(json_string "${gpu%%,*}")",
  "driver": "$(json_string "${gpu##*driver }")",
  "driver_version": "$(json_string "$driver_version")",
  "target": "$target",
  "nvrtc": "$(json_string "${nvrtc%% *}")",
  "doctor": "$(json_string "$(cat "$work/doctor")")",
  "seconds": $(($(date +%s) - started)),
  "failures": $failures,
  "stopped": $1,
  "parts": "$parts"$(for name in $all_parts; do
    printf ',\n  "%s": [\n%s\n  ]' "$name" "$(results_of "$name")"
  done)
}
END
  mv -f "$output.partial" "$output"
}

# --- Probes that FILE already has -----------------------------------------------------------------

# Each line: a probe's name, and the hash of its question.
probe_program="$root/bin/schedule_probe"
probe_list="$here/tools/probes.json"
[ -f "$probe_list" ] || probe_list="$here/probes.json"

# probe_key HASH: what a result depends on.
probe_key() {
  printf '%s\n' "$gpu" "$driver_version" "$nvrtc" "$commit" "$program_sum" "$1" | cksum | tr ' ' -
}

# Before all parts, so that FILE keeps them wherever this run ends.
keep_probes() {
  mkdir -p "$work/parts/probes"
  program_sum=$(cksum <"$probe_program")
  number=0 num_kept=0
  while read -r _ hash; do
    number=$((number + 1))
    grep -F "\"key\": \"$(probe_key "$hash")\"" "$output" 2>/dev/null |
      grep '^ *{"result": "passed", ' | head -n 1 |
      sed -e 's/^ *{"result": "passed", \("kept": true, \)*/{"result": "passed", "kept": true, /' \
        -e 's/,$//' >"$work/kept"
    [ -s "$work/kept" ] || continue
    mv "$work/kept" "$work/parts/probes/$(printf '%03d' $number).json"
    num_kept=$((num_kept + 1))
  done <"$work/probe_list"
  [ $num_kept -eq 0 ] || printf 'gpu_check: probes: %s of %s are in %s already, and kept\n' \
    $num_kept $number "$output"
}

: >"$work/probe_list"
case " $parts " in
  *" probes "*)
    if [ "$target" = sm_90a ] && "$probe_program" "$probe_list" >"$work/probe_list"; then
      keep_probes
    fi
    ;;
esac

# --- First: what is least sure on sm_90a ----------------------------------------------------------

# check OPTIONS WHAT: a case of lssar verify, which compares with the definition in float64.
check() {
  # shellcheck disable=SC2086  # options, split on purpose
  add_case "\"options\": \"$(json_string "$1")\", \"checks\": \"$2\"" \
    "$lssar" verify --device cuda --seq 200 --causal $1
}

# Each product of wgmma reads its right operand from shared memory with the 128-byte swizzle: atoms
# of 8 rows of 64 columns. If rows are the depth (MN-major), public kernels use whole atoms. Ours also
# use a part of an atom's columns, and begin inside its 128-byte row. The PTX ISA allows this and the
# virtual device does it, but nothing else has shown it. So it comes first.
if begin_hopper_part first; then
  whole="whole atoms, as public kernels have: must pass whatever the others do"
  cut="right operand MN-major, cut inside a 128-byte swizzle atom"
  inside="right operand MN-major, begins inside the 128-byte row"
  check "--pass forward --head-dim 64" "$whole"
  check "--pass backward --head-dim 128" "$whole"
  check "--pass forward --head-dim 96" "$cut: 96 columns of v, 64 and 32"
  check "--pass forward --head-dim 32" "$cut: 32 columns of v"
  check "--pass forward --head-dim 24 --head-dim-v 40" "$cut: 40 columns of v"
  split='--schedule {"dq_mode":"split"}'
  check "--pass backward --head-dim 96 $split" "$cut: 96 columns of q, k, do"
  check "--pass backward --head-dim 24 --head-dim-v 40 $split" "$cut: 24 of q and k, 40 of do"
  for mode in atomic ordered; do
    mode="--schedule {\"dq_mode\":\"$mode\"}"
    check "--pass backward --head-dim 64 $mode" "$inside: columns 32 to 63 of k for dq"
    check "--pass backward --head-dim 40 --head-dim-v 88 $mode" "$inside, and cut: 40 columns of k"
  done
  run_cases $first_s "$parallel"
  results_of first |
    sed -n -e 's/.*"result": "\([^"]*\)", "options": "\(.*\)", "checks": "\([^"]*\)".*/\1: \2: \3/' \
      -e 's/\\"/"/g' -e p
fi

# --- Tests ----------------------------------------------------------------------------------------

# add_shards NAME NUMBER FILTER: a test of whole kernels on the GPU. The kernels differ, so compiling
# takes most of the time and is divided among processes.
add_shards() {
  shard=0
  while [ "$shard" -lt "$2" ]; do
    add_case "\"name\": \"$1\", \"shard\": $shard" env LSSAR_TEST_DEVICE=cuda \
      LSSAR_TEST_TARGET="$target" GTEST_TOTAL_SHARDS="$2" GTEST_SHARD_INDEX=$shard \
      "$root/bin/$1" --gtest_brief=1 "--gtest_filter=$3"
    shard=$((shard + 1))
  done
}

if begin_part tests; then
  while read -r label name; do
    [ "$label" = gpu ] || continue
    case $name in
      gpu_attention_test) add_shards "$name" 8 '*' ;;
      *) add_case "\"name\": \"$name\"" "$root/bin/$name" --gtest_brief=1 ;;
    esac
  done <"$root/tests.txt"
  num_tests=$num_cases
  run_cases $tests_s "$parallel"
fi

# Each case once, because the other settings are for the virtual device.
if begin_part golden; then
  add_shards golden_test 8 '*/*_nvrtc_sm_80:GoldenCases.*'
  run_cases $golden_s "$parallel"
fi

# Clusters, chains of tiles, three consumers, weights through shared memory, tiles skipped,
# epsilon by a pass, packed heads: no default has them all.
if begin_hopper_part schedules; then
  for name in $hopper_programs; do
    case $name in
      hopper_schedules_test) add_shards "$name" 16 '*' ;;
      *) add_shards "$name" 4 '*' ;;
    esac
  done
  run_cases $schedules_s "$parallel"
fi

# --- lssar verify over a grid ---------------------------------------------------------------------

# The sanitizer runs these too. They are small, and together reach every kind of kernel. The first list
# runs in both passes; the second one is about the backward and runs in that pass only.
small_cases='--seq 70 --seq-k 90 --heads 2 --kv-heads 1 --head-dim 64
--seq 70 --head-dim 128 --no-causal --dtype fp16 --p 3
--seq 33 --head-dim 32 --dtype fp32
--seq 70 --head-dim 64 --p 0
--lengths 5,0,70,33:40 --heads 2 --kv-heads 1 --head-dim 64 --window 20,0 --rotary-dim 32
--lengths 1:700,2:90,0:5 --heads 4 --kv-heads 1 --head-dim 64'
small_backward_cases='--seq 70 --head-dim 64 --schedule {"dq_mode":"atomic"}
--seq 70 --head-dim 64 --schedule {"dq_mode":"ordered"}
--seq 140 --head-dim 128 --schedule {"dq_mode":"ordered"}'

grid() {
  printf '%s\n' "$small_cases"
  # Sequences, windows, rotary positions, the same bits in every batch, few queries.
  cat <<'END'
--lengths 5,0,300,33 --heads 4 --kv-heads 2 --head-dim 128
--lengths 5:7,130,1:97,12:40 --head-dim 64 --dtype fp16 --window 40,0 --window-sinks 3
--lengths 33,70,12:90 --head-dim 64 --dtype fp32 --rotary-dim 48 --prefix 10
--lengths 70,3:90 --head-dim 64 --no-causal --rotary-dim 32 --rotary-interleaved --chunk 50
--lengths 1:700,1:5000,2:90 --heads 8 --kv-heads 1 --head-dim 64
--lengths 1:700,3:600 --head-dim 128 --rotary-dim 128
--lengths 40,1:97 --head-dim 64 --invariant
--seq 300 --head-dim 64 --window 100,0 --window-sinks 4
--seq 300 --head-dim 128 --no-causal --window 50,20 --prefix 10
--seq 200 --head-dim 64 --chunk 64 --rotary-dim 64
--seq 150 --head-dim 128 --invariant
--seq 120 --head-dim 64 --score softmax,soft_cap=5,alibi=per_head
--seq 1 --seq-k 1000 --head-dim 64 --rotary-dim 64 --window 300,0
END
  for dim in 32 64 96 128 192 256; do
    for dtype in bf16 fp16 fp32; do
      printf -- '--head-dim %s --dtype %s --seq 200\n' $dim $dtype
    done
    printf -- '--head-dim %s --no-causal --seq 333\n' $dim
  done
  for p in 1 2 7 64; do printf -- '--head-dim 64 --p %s --seq 150\n' $p; done
  for data in peaky clustered opposed ties near_ties zeros huge; do
    printf -- '--head-dim 64 --seq 120 --data %s\n' $data
  done
  # What a GPU with kernels of its own does not take by itself.
  for dim in 64 128 256; do
    printf -- '--head-dim %s --seq 200 --schedule {"variant":"portable"}\n' $dim
  done
  cat <<'END'
--head-dim 128 --heads 4 --kv-heads 2 --batch 2 --seq 129
--head-dim 64 --heads 4 --kv-heads 1 --seq 100
--head-dim 64 --seq 17 --seq-k 300
--head-dim 64 --seq 300 --seq-k 200
--head-dim 64 --seq 1 --seq-k 400
--head-dim 128 --heads 8 --kv-heads 2 --seq 1 --seq-k 5000
--head-dim 64 --seq 16 --seq-k 1000 --dtype fp16
--head-dim 64 --head-dim-v 128 --seq 130 --no-causal
--head-dim 72 --seq 65
--head-dim 64 --seq 130 --runtime-lengths --offset 0.5
END
}

# Lines of options, each after its pass. A line without --no-causal is causal.
with_passes() {
  while read -r options; do
    case $options in *--no-causal*) ;; *) options="--causal $options" ;; esac
    for pass in "$@"; do printf -- '--pass %s %s\n' "$pass" "$options"; done
  done
}

if begin_part verify; then
  {
    grid | with_passes forward backward
    printf '%s\n' "$small_backward_cases" | with_passes backward
  } >"$work/grid"
  while read -r options; do
    # shellcheck disable=SC2086
    add_case "\"options\": \"$(json_string "$options")\"" "$lssar" verify --device cuda $options
  done <"$work/grid"
  run_cases $verify_s "$parallel"
fi

# --- The Python package ----------------------------------------------------------------------------

if begin_part python; then
  script="$here/gpu_python.py"
  [ -f "$script" ] || script="$here/tools/gpu_python.py"
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    for name in $(python3 -B "$script"); do
      add_case "\"name\": \"$name\"" env "LSSAR_LIBRARY=$root/lib" python3 -B "$script" "$name"
    done
    [ "$num_cases" -gt 0 ] || add_case '"name": "gpu_python.py"' python3 -B "$script" names
    run_cases $python_s "$parallel"
  else
    printf 'gpu_check: python: nothing to do: python3 has no torch that finds a GPU\n'
  fi
fi

# --- compute-sanitizer ----------------------------------------------------------------------------

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if begin_part sanitizer && [ ! -x "$sanitizer" ]; then
  printf 'gpu_check: compute-sanitizer is missing: it is part of the CUDA toolkit\n' >&2
  sanitizer_missing=1
elif [ -d "$work/parts/sanitizer" ]; then
  {
    printf '%s\n' "$small_cases" | with_passes forward backward
    printf '%s\n' "$small_backward_cases" | with_passes backward
  } >"$work/small"
  for tool in memcheck racecheck initcheck synccheck; do
    while read -r options; do
      # shellcheck disable=SC2086
      add_case "\"tool\": \"$tool\", \"options\": \"$(json_string "$options")\"" \
        "$sanitizer" --tool $tool --error-exitcode 9 "$lssar" verify --device cuda -q $options
    done <"$work/small"
  done
  run_cases $sanitizer_s "$parallel"
fi

# --- Probes: alone on the machine -----------------------------------------------------------------

# run_probe NUMBER NAME HASH
run_probe() {
  num_cases=$(($1 - 1))
  figures="$part/$2.figures"
  now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  add_case "\"name\": \"$2\", \"key\": \"$(probe_key "$3")\", \"date\": \"$now\"" \
    "$probe_program" "$probe_list" "$2" "$figures" cuda
  printf 'figures="%s" states="%s"\n' "$figures" "$part/$2.states" >>"$file"
  until=$(($(date +%s) + probe_s))
  [ $until -lt $deadline ] || until=$deadline
  sh "$here/gpu_check.sh" --case $until "$file"
  [ -f "$file.json" ] || sh "$here/gpu_check.sh" --case 0 "$file"  # a signal ended it
  write_file true
}

if begin_hopper_part probes; then
  deadline=$(($(date +%s) + probes_s))
  number=0
  while read -r name hash <&3; do
    number=$((number + 1))
    [ $stopped = false ] || break
    [ -f "$part/$(printf '%03d' $number).json" ] || run_probe $number "$name" "$hash"
  done 3<"$work/probe_list"
  if [ $number -eq 0 ]; then  # says why there is no list
    add_case '"name": "schedule_probe"' "$probe_program" "$probe_list" none "$part/none"
    run_cases $probe_s 1
  fi
fi

# --- Benchmarks: alone on the machine -------------------------------------------------------------

if begin_part benchmarks; then
  for program in "$root"/bin/*_bench; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    add_case "\"name\": \"$name\"" "$program" "--benchmark_out=$part/$name.figures" \
      --benchmark_out_format=json
    printf 'figures="%s"\n' "$part/$name.figures" >>"$file"
  done
  run_cases $bench_s 1
fi

# --- The end --------------------------------------------------------------------------------------

[ "$num_tests" -gt 0 ] || printf 'gpu_check: no test is labelled gpu\n' >&2
write_file $stopped
printf 'gpu_check: %s failures; results in %s\n' "$failures" "$output"
[ $stopped = false ] || exit 130
[ "$failures" -eq 0 ]
