// Writes expressions as device source that calls the functions of
// templates/tile/expression_math.cuh. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/source/source_writer.h"
#include "score/expression.h"

namespace lssar {

// A power with a whole exponent of at most this size is written as products.
inline constexpr double kMostWholePower = 64;

// A float literal that reads back as exactly this float. Infinities and NaN are allowed.
std::string float_literal(double value);

// Writes `text` as comment lines, broken at spaces.
void write_comment(SourceWriter& out, const std::string& text);

// Declares the functions that expressions call, for source that precedes their definitions.
void write_expression_declarations(SourceWriter& out);

// Writes two static members under comments with their expressions: `name`, whose parameters are
// `arguments` ("float x"), and `name`_and_slope, which also sets a `float& slope` to the derivative
// by x. `is_precise` is kPrecise of expression_math.cuh.
void write_function(SourceWriter& out, const char* name, const char* arguments,
                    const Expression& value, bool is_precise);

}  // namespace lssar
