// The polynomial P in log2(1 + u) = u P(u) for u in [0, 1]. Softplus in bits is max(x, 0) + u P(u)
// with u = 2^-|x|. The generator and the table in docs/math.md use it.
#pragma once

#include <span>

namespace lssar {

constexpr int kMinSoftplusDegree = 3;
constexpr int kMaxSoftplusDegree = 8;

// degree + 1 coefficients, constant first; all are float32 values. They are minimax in relative
// error under the constraint P(1) = 1, which Horner's rule in float32 meets exactly. So a score of
// 0 has softplus 1 bit for every degree, and a row of zero scores is dead with every polynomial.
//
// Relative errors of u P(u) by float32 Horner, degree 3 to 8: 4.5e-4, 6.3e-5, 9.3e-6, 1.5e-6,
// 3.8e-7, 1.8e-7 (tests/reference/numerics_test.cpp measures them).
//
// REQUIRES: 3 <= degree <= 8; otherwise the span is empty.
std::span<const double> softplus_coefficients(int degree);

}  // namespace lssar
