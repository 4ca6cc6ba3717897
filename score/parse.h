// Text to expressions.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "score/expression.h"

namespace lssar {

// Most numbers, variables and operations that a text may have, and how deep brackets may nest.
inline constexpr int kMaxExpressionTerms = 1000;
inline constexpr int kMaxExpressionDepth = 100;

// Numbers ("2", "1e-3"), pi, e, the given variables, + - * / ^ (right to left, above the minus
// sign), brackets, the functions of all_function_names(), and where(a < b, value, other) with
// < <= > >= == !=. Spaces are free.
// Errors: kInvalidArgument, which says what is wrong at which character, and shows it.
Result<Expression> parse_expression(std::string_view text, const std::vector<Variable>& variables);

}  // namespace lssar
