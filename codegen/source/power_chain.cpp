#include "codegen/source/power_chain.h"

#include <string>

namespace lssar {
namespace {

// Depth-first search over chains in which every step uses the newest power. (Such star chains are
// shortest for every n up to 64.) The depth limit grows by one multiplication at a time. Larger
// powers are tried first.
bool extend(std::vector<PowerStep>& chain, std::vector<int>& powers, int n, int steps_left) {
  const int newest = powers.back();
  if (newest == n) return true;
  if (steps_left == 0 || (newest << steps_left) < n) return false;
  for (int i = static_cast<int>(powers.size()) - 1; i >= 0; --i) {
    const int next = newest + powers[i];
    if (next > n) continue;
    chain.push_back({next, newest, powers[i]});
    powers.push_back(next);
    if (extend(chain, powers, n, steps_left - 1)) return true;
    chain.pop_back();
    powers.pop_back();
  }
  return false;
}

// Squares from the top binary digit down, with a product by u where the digit is 1.
std::vector<PowerStep> binary_chain(int n) {
  if (n == 1) return {};
  std::vector<PowerStep> chain = binary_chain(n / 2);
  chain.push_back({n / 2 * 2, n / 2, n / 2});
  if (n % 2 != 0) chain.push_back({n, n - 1, 1});
  return chain;
}

// Searching takes too long above this.
constexpr int kMaxSearched = 64;

}  // namespace

std::vector<PowerStep> power_chain(int n) {
  if (n > kMaxSearched) return binary_chain(n);
  for (int steps = 0;; ++steps) {
    std::vector<PowerStep> chain;
    std::vector<int> powers = {1};
    if (extend(chain, powers, n, steps)) return chain;
  }
}

void write_power_chain(SourceWriter& out, const char* type, int n) {
  const auto power = [](int exponent) {
    return exponent == 1 ? std::string("u") : "u" + std::to_string(exponent);
  };
  for (const PowerStep& step : power_chain(n)) {
    const std::string product = power(step.left) + " * " + power(step.right);
    if (step.exponent == n) {
      out.line("return $product$;", {{"product", product}});
    } else {
      out.line("const $type$ $result$ = $product$;",
               {{"type", type}, {"result", power(step.exponent)}, {"product", product}});
    }
  }
  if (n == 1) out.line("return u;");
}

}  // namespace lssar
