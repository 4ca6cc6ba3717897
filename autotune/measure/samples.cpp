#include "autotune/measure/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lssar {
namespace {

// REQUIRES: `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = at - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

double half_quartile_range(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
}

}  // namespace lssar
