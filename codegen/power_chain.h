// Addition chains: u^n with the fewest multiplications.
#pragma once

#include <vector>

namespace lssar {

// One multiplication: u^exponent = u^left * u^right, both computed before.
struct PowerStep {
  int exponent, left, right;
};

// The steps of a shortest chain from u to u^n, the same at every call; empty for n = 1.
// REQUIRES: 1 <= n <= 64.
std::vector<PowerStep> shortest_power_chain(int n);

}  // namespace lssar
