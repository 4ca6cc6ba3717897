// Derivatives of expressions.
#pragma once

#include "score/expression.h"

namespace lssar {

// d expression / d variable.
//
// At a kink the result is a one-sided derivative or 0: abs gives 0 at 0; where(a < b, ...) gives
// that of the branch taken; min and max give that of the smaller or larger operand. If the operands
// of min or max are equal, the one that comes last in the canonical text counts. Constants come
// last, so relu, relu^2 and the upper end of relu6 give 0.
Expression derivative(const Expression& expression, Variable variable);

}  // namespace lssar
