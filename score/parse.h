// Parses expressions.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "score/expression.h"

namespace lssar {

// Limits for the numbers, variables and operations in a text, and for the nesting of brackets.
inline constexpr int kMaxExpressionTerms = 1000;
inline constexpr int kMaxExpressionDepth = 100;

// Understands numbers ("2", "1e-3"), pi, e, the given variables, + - * / ^ (^ groups right to left
// and binds tighter than the minus sign), brackets, the functions of all_function_names(), and
// where(a < b, value, other) with < <= > >= == !=. Spaces are ignored. Errors: kInvalidArgument
// says what is wrong at which character, and shows it.
Result<Expression> parse_expression(std::string_view text, const std::vector<Variable>& variables);

}  // namespace lssar
