#!/bin/sh
# Builds tests with a sanitizer and runs them:
#
#   sh tools/sanitize.sh address BUILD    address and undefined behaviour: cache, C API, devices,
#                                         kept inputs of the fuzzers of binary files and of calls,
#                                         golden cases at d 64
#   sh tools/sanitize.sh thread BUILD     the tests with threads
#
# BUILD is a finished build without a sanitizer.
#
# Its LLVM compiler, float64 reference, tailoring of the templates, cache of compiled kernels and the virtual
# device's handlers of instructions are used as they are; with `address` also the rest of the virtual
# device, the score functions, the code generator, the tuner and the tests. The code that handles other
# people's pointers, bytes and threads is instrumented. The presets asan and tsan instrument everything,
# and so do the fuzzers, which also read schedules and tuning tables.
#
# Exit code: 0 all passed; 1 a test failed or did not build; 2 wrong usage.
set -eu

[ $# -eq 2 ] && [ -d "$2" ] || { sed -n '2,9p' "$0" | cut -c3- >&2; exit 2; }
cd "$(dirname "$0")/.."
plain=$(cd "$2" && pwd)
build=$plain/sanitized_$1
# The compilers' leaks are not ours, nor is what a fork leaves behind.
case $1 in
  address)
    sanitizers=address,undefined
    tests="cache_fault_test cache_test capi_dump_test capi_engine_test capi_errors_test
      capi_executor_test capi_host_memory_test capi_key_ranges_test
      capi_operands_test capi_plan_schedule_test compiler_parsers_test device_cuda_test
      device_open_test device_record_test golden_test npy_test part_file_test readers_corpus_test"
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
    export LSAN_OPTIONS=suppressions=$PWD/tools/leaks_of_others.txt:print_suppressions=0
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    ;;
  thread)
    sanitizers=thread
    tests="cache_test capi_engine_test capi_threads_test"
    export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0
    ;;
  *)
    printf 'sanitize: %s: allowed are address and thread\n' "$1" >&2
    exit 2
    ;;
esac

# The tests of a program that run. Golden cases of other dims take long with a sanitizer.
filter_of() {
  case $1 in
    readers_corpus_test) echo "-*/schedule:*/table" ;;  # readers that are not instrumented here
    golden_test) echo "All/Golden.*p15_d64*nvrtc_sm_80:All/Golden.*lssa_d64*llvm_sm_90" ;;
    *) echo "*" ;;
  esac
}

[ -f "$build/build.ninja" ] || cmake -G Ninja -S . -B "$build" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DLSSAR_SANITIZE=$sanitizers -DLSSAR_PLAIN_BUILD="$plain" -DLSSAR_UNITY=ON \
  -DLSSAR_BUILD_TOOLS=OFF -DLSSAR_BUILD_LLVM_COMPILER=OFF -DLSSAR_PYTHON_TESTS=OFF >/dev/null
# shellcheck disable=SC2086  # a list of targets
ninja -C "$build" -j "${LSSAR_SANITIZE_JOBS:-1}" $tests

export LSSAR_CACHE_DIR=$plain/test_cache LSSAR_TUNING_TABLE=none
export LSSAR_LLVM_PATH=$plain/lib/liblssar_llvm.so
failed=""
for test in $tests; do
  "$build/bin/$test" --gtest_brief=1 --gtest_filter="$(filter_of "$test")" ||
    failed="$failed $test"
done
[ -z "$failed" ] || { printf 'sanitize: failed:%s\n' "$failed" >&2; exit 1; }
