#!/bin/sh
# Sets lssar up on this machine, builds it, and then shows or tests it:
#
#   sh tools/setup.sh demo      forward and backward of a real problem on the best device here
#   sh tools/setup.sh test      the tests without the label `long`: a quarter of an hour on two cores
#   sh tools/setup.sh test-all  those, and then the long ones, in one run
#
# Installs the packages that are missing with apt (Debian 12; Ubuntu 24.04 has them too, untested),
# builds what is asked for in build/release, and says what it does. What failed last time runs first.
# Nothing is downloaded from PyPI but by test-all, whose Python tests need torch 2.
# A GPU or a CUDA toolkit is used where there is one, and not needed: LLVM 19 compiles the kernels
# where NVRTC is not found, and the virtual device runs them where there is no GPU.
# A second run finds everything in place and rebuilds only what changed.
# The last line says how long each step took.
#
# Exit code: that of the demonstration or of the tests; 2 wrong usage; 3 something cannot be
# installed here.
set -eu

packages="g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libfmt-dev libbenchmark-dev libzstd-dev
libssl-dev llvm-19-dev libclang-19-dev binutils"
# Those of test and test-all alone.
test_packages="libgtest-dev libgmock-dev libpolly-19-dev patchelf python3-venv python3-torch pkg-config abigail-tools
chromium mkdocs"

say() {
  printf '%s\n' "$*"
}

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 3
}

# Notes how long the step NAME, which ends here, took.
took() {
  now=$(date +%s)
  times="${times:+$times, }$1 $((now - began)) s"
  began=$now
}

# Ends with the times and the exit code of the last step.
finish() {
  say "setup: $times"
  exit "$1"
}

# The packages of the list that dpkg does not report as installed.
missing_packages() {
  for package in $packages; do
    state=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null || true)
    case $state in
      installed*) ;;
      *) printf '%s ' "$package" ;;
    esac
  done
}

explain_by_hand() {
  fail "$1
This script installs packages with apt, on Debian 12 (Ubuntu 24.04 has them too, untested).
Elsewhere, install what these Debian packages hold by hand:
$packages
and build with: cmake --preset release && cmake --build --preset release"
}

install_packages() {
  command -v dpkg-query >/dev/null 2>&1 || explain_by_hand "no dpkg on this machine"
  wanted=$(missing_packages)
  [ -z "$wanted" ] && return 0
  command -v apt-get >/dev/null 2>&1 || explain_by_hand "missing: $wanted(no apt-get here)"

  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 ||
      fail "not root and no sudo: run as root 'apt-get install $wanted', then this again"
    as_root="sudo"
  fi
  say "setup: installing $wanted"
  # Old lists name packages that are gone, so they are renewed first; a machine without a network
  # that has a local package source may still succeed.
  $as_root apt-get -qq update || say "setup: apt-get update failed; trying with the lists at hand"
  # shellcheck disable=SC2086  # a list of packages, split on purpose
  $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y --no-install-recommends install $wanted </dev/null ||
    explain_by_hand "apt-get could not install: $wanted"
}

# TARGET... is what is built; nothing: all.
build() {
  say "setup: compiling with $jobs jobs into build/release"
  cmake --build --preset release --parallel "$jobs" ${1:+--target "$@"}
  took compiling
}

# The library, the command and what they run, without the tests: their packages are not here yet. The
# virtual device gets the handlers of this machine alone, which is a fifth less to compile; build_tests
# adds the others. Where the folder is configured already it stays so.
build_command() {
  if [ ! -f build/release/build.ninja ]; then
    say "setup: configuring"
    cmake --preset release -DLSSAR_UNITY=ON -DLSSAR_BUILD_TESTS=OFF -DLSSAR_NATIVE_SIMD=ON \
      >/dev/null
    took configuring
  fi
  build lssar lssar_command lssar_tune_worker lssar_llvm
}

build_tests() {
  # NOTE: also where the folder is configured, since demo leaves the tests out. A folder that somebody
  # configured with other options keeps them.
  if ! grep -qs '^LSSAR_SANITIZER_TESTS:BOOL=ON' build/release/CMakeCache.txt; then
    say "setup: configuring, with the tests"
    cmake --preset release -DLSSAR_UNITY=ON -DLSSAR_NATIVE_SIMD=OFF -DLSSAR_BUILD_TESTS=ON \
      -DLSSAR_SANITIZER_TESTS=ON >/dev/null
    took configuring
  fi
  build
}

num_long_tests() {
  ctest --test-dir build/release --show-only --label-regex '^long$' |
    sed -n 's/^Total Tests: //p'
}

# The closing lines of ctest, with the tests that failed, are the last thing printed before the times.
run_tests() {
  status=0
  ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$jobs" "$@" ||
    status=$?
  took tests
  finish "$status"
}

[ $# -eq 1 ] || { sed -n '2,6p' "$0" | cut -c3- >&2; exit 2; }
cd "$(dirname "$0")/.."
jobs=$(nproc)
times=""
began=$(date +%s)
case $1 in
  demo)
    install_packages
    took packages
    build_command
    status=0
    sh tools/demo.sh build/release/bin/lssar || status=$?
    took demonstration
    finish "$status"
    ;;
  test)
    packages="$packages $test_packages"
    install_packages
    took packages
    build_tests
    say "setup: $(num_long_tests) tests are long and left out: sh tools/setup.sh test-all runs them too"
    run_tests --label-exclude '^long$'
    ;;
  test-all)
    packages="$packages $test_packages"
    install_packages
    took packages
    # torch, for the long tests of the Python package, while the compiler works. Where this fails
    # those tests try again, and fail with the reason.
    python3 tests/python/environment.py build/release/python_environment >/dev/null 2>&1 &
    build_tests
    wait
    run_tests
    ;;
  *)
    printf 'setup: %s: allowed are demo, test and test-all\n' "$1" >&2
    exit 2
    ;;
esac
