// Writes expressions as source that calls the functions of templates/tile/expression_math.cuh, or
// for a CPU those of templates/cpu/expression_math.h. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/source/source_writer.h"
#include "score/expression.h"

namespace lssar {

// A power with a whole exponent of at most this size is written as products.
inline constexpr double kMostWholePower = 64;

// A float literal that reads back as exactly this float. Infinities and NaN are allowed.
std::string float_literal(double value);

// Writes `text` as comment lines, broken at spaces.
void write_comment(SourceWriter& out, const std::string& text);

// What functions of expressions are written in.
enum class ExpressionForm {
  kGpu,         // floats
  kGpuPrecise,  // the same, with kPrecise of expression_math.cuh
  kCpu,         // vectors of floats
};

// Declares the functions that expressions call, for source that precedes their definitions. For a
// CPU with `lanes` floats in a vector.
void write_expression_declarations(SourceWriter& out);
void write_cpu_expression_declarations(SourceWriter& out, int lanes);

// Writes two static members under comments with their expressions: `name`, whose parameters are
// `arguments` ("x", "b"), and `name`_and_slope, which also sets a reference `slope` to the
// derivative by x. Parameters and results are of type float, or Vector for a CPU.
void write_function(SourceWriter& out, const char* name, const std::vector<const char*>& arguments,
                    const Expression& value, ExpressionForm form);
// The same with a form of the derivative that is given.
void write_function(SourceWriter& out, const char* name, const std::vector<const char*>& arguments,
                    const Expression& value, const Expression& slope, ExpressionForm form);

}  // namespace lssar
