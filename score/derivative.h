// Derivatives of expressions.
#pragma once

#include "score/expression.h"

namespace lssar {

// d expression / d variable.
//
// At a kink it is one-sided or 0: abs has 0 at 0; where(a < b, ...) has that of the branch taken;
// min and max have that of the larger (smaller) operand, and where both are equal that of the
// operand that comes last in the canonical text. Constants come last, so relu, relu^2 and the upper
// end of relu6 have 0.
Expression derivative(const Expression& expression, Variable variable);

}  // namespace lssar
