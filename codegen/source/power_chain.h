// Addition chains: u^n with few multiplications.
#pragma once

#include <vector>

#include "codegen/source/source_writer.h"

namespace lssar {

// One multiplication: u^exponent = u^left * u^right, both computed before.
struct PowerStep {
  int exponent, left, right;
};

// The steps of a chain from u to u^n, the same at every call. Empty for n = 1. Up to n = 64 it is
// as short as possible; above that it squares and multiplies by n's binary digits. REQUIRES: n >=
// 1.
std::vector<PowerStep> power_chain(int n);

// Writes the body of a function that returns u^n: a constant of this type for each step.
void write_power_chain(SourceWriter& out, const char* type, int n);

}  // namespace lssar
