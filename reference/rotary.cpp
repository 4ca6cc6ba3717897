#include "reference/rotary.h"

#include <cmath>

namespace lssar {

RotaryTables rotary_tables(int64_t positions, int dim, double base) {
  RotaryTables tables;
  for (int64_t position = 0; position < positions; ++position) {
    for (int pair = 0; pair < dim / 2; ++pair) {
      const double angle = static_cast<double>(position) * std::pow(base, -2.0 * pair / dim);
      tables.cos.push_back(static_cast<float>(std::cos(angle)));
      tables.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

void rotate_rows(const Problem& problem, const std::vector<double>& cos,
                 const std::vector<double>& sin, int64_t rows, int64_t first_position, bool back,
                 std::vector<double>& x) {
  const int64_t dim = problem.head_dim, pairs = problem.rotary_dim / 2;
  const int64_t step = problem.rotary_interleaved ? 2 : 1;
  const int64_t apart = problem.rotary_interleaved ? 1 : pairs;
  const int64_t all = static_cast<int64_t>(x.size()) / dim;
  for (int64_t row = 0; row < all; ++row) {
    const int64_t angles = (first_position + row % rows) * pairs;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      double& a = x[row * dim + step * pair];
      double& b = x[row * dim + step * pair + apart];
      const double c = cos[angles + pair], s = back ? -sin[angles + pair] : sin[angles + pair];
      const double turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }
}

}  // namespace lssar
