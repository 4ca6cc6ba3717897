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
name=lssar_llvm

cd "$(dirname "$0")/.."
out=${1:-build/wheel}
. tools/wheel_steps.sh

build_target lssar_llvm_bundled
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
# The licences of what is linked in go with it.
cp -r python/llvm "$plain/source"
cp LICENSE "$plain/source/LICENSE"
cp /usr/share/doc/libllvm19/copyright "$plain/source/LICENSE.llvm"
make_wheel "$plain/source" "$plain" LSSAR_LLVM_LIBRARY="$build/bundled/liblssar_llvm.so"
