#!/bin/sh
# Makes the wheel lssar-llvm, which brings the LLVM compiler to machines without LLVM 19:
#
#   sh tools/llvm_wheel.sh [FOLDER]   default: build/wheel
#
# lssar_llvm-VERSION-py3-none-manylinux_2_36_x86_64.whl: x86-64 Linux with glibc 2.36 or later, any
# Python from 3.10 on. LLVM and clang are linked into liblssar_llvm.so from Debian's static
# libraries; auditwheel checks what the wheel needs of a system. Nothing is published.
#
# Exit code: 0; 1 it could not be made, or needs a newer system; 3 a tool is missing.
set -eu

platform=manylinux_2_36_x86_64

cd "$(dirname "$0")/.."
out=${1:-build/wheel}
build=$(realpath -m "${LSSAR_BUILD_DIR:-build/release}")
for tool in cmake ninja python3; do
  command -v "$tool" >/dev/null 2>&1 || {
    printf 'llvm_wheel: %s is missing; sh tools/setup.sh test installs it\n' "$tool" >&2
    exit 3
  }
done

[ -f "$build/build.ninja" ] || cmake --preset release -DLSSAR_UNITY=ON -B "$build"
cmake --build "$build" --target lssar_llvm_bundled

environment=$PWD/build/wheel_environment
python3 tests/python/environment.py "$environment" tests/python/wheel_requirements.txt
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
# The licences of what is linked in go with it.
cp -r python/llvm "$plain/source"
cp LICENSE "$plain/source/LICENSE"
cp /usr/share/doc/libllvm19/copyright "$plain/source/LICENSE.llvm"
"$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$plain" --config-settings build-dir="$plain/build" \
  --config-settings cmake.define.LSSAR_LLVM_LIBRARY="$build/bundled/liblssar_llvm.so" "$plain/source"
# --only-plat: the name says the oldest system that will do, and nothing else.
PATH="$environment/bin:$PATH" "$environment/bin/python" -m auditwheel repair --plat "$platform" --only-plat \
  --wheel-dir "$out" "$plain"/lssar_llvm-*.whl
ls -l "$out"/lssar_llvm-*-"$platform".whl
