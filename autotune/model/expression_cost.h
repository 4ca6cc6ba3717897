// Counts the instructions that an expression takes for each score. They follow from its steps, as
// templates/tile/expression_math.cuh computes them and ptxas 13.0 compiles them.
//
// Used by the cost model. Threads: plain values and pure functions.
#pragma once

#include "codegen/problem.h"
#include "score/program.h"

namespace lssar {

struct ScoreCost {
  double slots = 0;  // instructions beside tensor cores and special functions
  double special = 0;

  ScoreCost& operator+=(const ScoreCost& other) {
    slots += other.slots;
    special += other.special;
    return *this;
  }
};

// If threads of a warp may take different branches (erf, tanh, log), both count. `is_precise` is
// kPrecise of expression_math.cuh.
ScoreCost cost_of(const Program& program, bool is_precise);

// Costs of phi and psi, alone and with their derivatives. An exponential over a sum
// (exponential_of) is one special function. The costs of phi include the soft cap and ALiBi. Those
// of psi are 0 if there is none.
struct FunctionCosts {
  ScoreCost phi, phi_and_slope;
  ScoreCost psi, psi_and_slope;
};
FunctionCosts function_costs(const Problem& problem);

}  // namespace lssar
