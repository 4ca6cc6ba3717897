// Writes a score function as source: the members of Config that templates/tile/general_rows.cuh and
// general_gradient.cuh call, or for a CPU those of templates/cpu. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/problem.h"
#include "codegen/source/source_writer.h"

namespace lssar {

// Whether functions of expressions are the more exact ones (kPrecise of
// templates/tile/expression_math.cuh): float32 problems, and powers that multiply errors by so much
// that the cheap forms show.
bool needs_precise_functions(const Problem& problem);

// The soft cap in the units of phi, and its derivative: 4 u / (1 + u)^2 with u = e^(-2 |x / cap|).
// 1 - tanh^2 would be a rounding error where scores are far above the cap.
struct SoftCap {
  Expression value, slope;
};
// REQUIRES: there is a soft cap.
SoftCap soft_cap_of(const Problem& problem);

// The constants that choose between passes and sums.
void write_score_constants(SourceWriter& out, const Problem& problem);
// score_scale, score_bias, fixed_normalizer, phi, phi_and_slope, psi, psi_and_slope, each under a
// comment with its expression. REQUIRES: is_general(problem).
void write_score_functions(SourceWriter& out, const Problem& problem, bool is_cpu);

// The formula of the problem as lines of text: s, a, P, weights, o.
std::vector<std::string> score_formula(const Problem& problem);

}  // namespace lssar
