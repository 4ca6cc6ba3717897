// Prints the instruction set that LSSAR_NATIVE_SIMD builds: virtual/CMakeLists.txt runs it.
#include "virtual/program/machine_simd.h"

#include <cstdio>

int main() { std::puts(lssar::machine_simd()); }
