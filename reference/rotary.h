// Rotary positions in float64 (docs/rotary.md), and tables of their angles. No state: any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/problem.h"

namespace lssar {

// [positions, dim / 2] each: the cosines and sines of m base^(-2c / dim) at position m of pair c.
struct RotaryTables {
  std::vector<float> cos, sin;
};
RotaryTables rotary_tables(int64_t positions, int dim, double base = 10000.0);

// Turns rows of [slices, rows, head_dim] by their positions, row 0 of a slice by that of
// `first_position`; `back`: by the negative angles. REQUIRES: problem.rotary_dim != 0, and tables
// that have every position.
void rotate_rows(const Problem& problem, const std::vector<double>& cos,
                 const std::vector<double>& sin, int64_t rows, int64_t first_position, bool back,
                 std::vector<double>& x);

}  // namespace lssar
