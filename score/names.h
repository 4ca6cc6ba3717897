// The names of variables, functions and comparisons in expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "score/expression.h"

namespace lssar {

const char* variable_name(Variable variable);          // "x", "b", "N"
const char* comparison_name(Comparison comparison);    // "<", "<=", "=="
const char* function_name(Expression::Kind function);  // kExp to kMax: "exp", ..., "max"

// A function that a text may call, and its number of operands.
struct NamedFunction {
  const char* name;
  size_t num_operands;
  Expression (*make)(const Expression* operands);
};
// Every function except where, which takes a condition.
const NamedFunction* find_function(std::string_view name);
// "min, max, abs, ...", including where.
std::string all_function_names();

// What stands where a name was expected, for messages: its first 40 characters, control characters
// escaped.
std::string shown_name(std::string_view name);

}  // namespace lssar
