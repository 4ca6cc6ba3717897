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
name=lssar

cd "$(dirname "$0")/.."
out=${1:-build/wheel}
. tools/wheel_steps.sh

build_target lssar_python
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
sh tools/ship_kernels.sh "$build" "$plain/liblssar_kernels.so" ${2:+"$2"}
make_wheel . "$plain" LSSAR_PREBUILT="$build" LSSAR_BUILD_LLVM_COMPILER=OFF \
  LSSAR_SHIPPED_KERNELS="$plain/liblssar_kernels.so"
