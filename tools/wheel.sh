#!/bin/sh
# Makes the wheel of the Python package for other machines:
#
#   sh tools/wheel.sh [FOLDER [PROBLEMS]]   default: build/wheel
#
# lssar-VERSION-py3-none-manylinux_2_34_x86_64.whl: x86-64 Linux with glibc 2.34 or later, any Python
# from 3.10 on. The script brings build/release (LSSAR_BUILD_DIR) up to date and bundles it; auditwheel
# checks what the wheel needs of a system. The LLVM compiler is a wheel of its own (tools/llvm_wheel.sh),
# because it is large. Without it NVRTC compiles for GPUs (torch for CUDA installs it, and so does `pip
# install nvidia-cuda-nvrtc`), and the CPU device has the kernels that the wheel brings, those of
# PROBLEMS (default: tools/ship_kernels/common.jsonl).
#
# Exit code: 0; 1 it could not be made, or needs a newer system; 3 a tool is missing.
set -eu

platform=manylinux_2_34_x86_64

cd "$(dirname "$0")/.."
out=${1:-build/wheel}
build=$(realpath -m "${LSSAR_BUILD_DIR:-build/release}")
for tool in cmake ninja python3; do
  command -v "$tool" >/dev/null 2>&1 || {
    printf 'wheel: %s is missing; sh tools/setup.sh test installs it\n' "$tool" >&2
    exit 3
  }
done

[ -f "$build/build.ninja" ] || cmake --preset release -DLSSAR_UNITY=ON -B "$build"
cmake --build "$build" --target lssar_python

environment=$PWD/build/wheel_environment
python3 tests/python/environment.py "$environment" tests/python/wheel_requirements.txt
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
sh tools/ship_kernels.sh "$build" "$plain/liblssar_kernels.so" ${2:+"$2"}
"$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$plain" --config-settings build-dir="$plain/build" \
  --config-settings cmake.define.LSSAR_PREBUILT="$build" \
  --config-settings cmake.define.LSSAR_SHIPPED_KERNELS="$plain/liblssar_kernels.so" \
  --config-settings cmake.define.LSSAR_BUILD_LLVM_COMPILER=OFF .
# --only-plat: the name says the oldest system that will do, and nothing else.
PATH="$environment/bin:$PATH" "$environment/bin/python" -m auditwheel repair --plat "$platform" --only-plat \
  --wheel-dir "$out" "$plain"/lssar-*.whl
ls -l "$out"/lssar-*-"$platform".whl
