#!/bin/sh
# Sets lssar up on this machine, builds it, and then shows or tests it:
#
#   sh tools/setup.sh demo      forward and backward of a real problem on the best device here
#   sh tools/setup.sh test      the test suite without the tests that are labelled `long`
#   sh tools/setup.sh test-all  the whole test suite: the long tests after the others
#
# Installs the packages that are missing with apt (Debian 12; Ubuntu 24.04 has them too, untested).
# A GPU or a CUDA toolkit is used where there is one, and not needed: LLVM 19 compiles the kernels
# where NVRTC is not found, and the virtual device runs them where there is no GPU.
# A second run finds everything in place and rebuilds only what changed.
#
# Exit code: that of the demonstration or of the tests; 2 wrong usage; 3 something cannot be
# installed here.
set -eu

packages="g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libfmt-dev libgtest-dev libgmock-dev
libbenchmark-dev libzstd-dev libssl-dev llvm-19-dev libclang-19-dev binutils patchelf
python3-venv pkg-config abigail-tools chromium mkdocs"
# For test-all alone: the wheel is tried with the distribution's torch.
long_packages="python3-torch"

say() {
  printf '%s\n' "$*"
}

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 3
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

build() {
  # After the first time ninja runs CMake itself, when something it read has changed.
  if [ ! -f build/release/build.ninja ]; then
    cmake --preset release -DLSSAR_SANITIZER_TESTS=ON -DLSSAR_UNITY=ON
  fi
  cmake --build --preset release --parallel "$jobs"
}

num_long_tests() {
  ctest --test-dir build/release --show-only --label-regex '^long$' |
    sed -n 's/^Total Tests: //p'
}

[ $# -eq 1 ] || { sed -n '2,6p' "$0" | cut -c3- >&2; exit 2; }
cd "$(dirname "$0")/.."
jobs=$(nproc)
case $1 in
  demo)
    install_packages
    build
    exec sh tools/demo.sh build/release/bin/lssar
    ;;
  test | test-all)
    [ "$1" = test ] || packages="$packages $long_packages"
    install_packages
    # torch, for the tests of the Python package, while the compiler works. Where this fails those
    # tests try again, and fail with the reason.
    python3 tests/python/environment.py build/release/python_environment >/dev/null 2>&1 &
    build
    wait
    selection=""
    if [ "$1" = test ]; then
      selection="--label-exclude ^long$"
      say "setup: $(num_long_tests) long tests are left out: sh tools/setup.sh test-all runs them too"
    fi
    # The closing lines of ctest are the last thing printed.
    # shellcheck disable=SC2086  # an option and its value, or nothing
    exec ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$jobs" \
      $selection
    ;;
  *)
    printf 'setup: %s: allowed are demo, test and test-all\n' "$1" >&2
    exit 2
    ;;
esac
