// Expressions as device source, in the functions of templates/tile/expression_math.cuh. Threads:
// pure functions.
#pragma once

#include <string>

#include "codegen/source/source_writer.h"
#include "score/expression.h"

namespace lssar {

// A float literal that reads back as exactly this value as a float; also for infinities and NaN.
std::string float_literal(double value);

// `text` as lines of a comment, broken at blanks.
void write_comment(SourceWriter& out, const std::string& text);

// Declarations of what the functions call, for source that comes before it.
void write_expression_declarations(SourceWriter& out);

// Two static members under the expressions that they compute: `name` of `arguments` ("float x"),
// and `name`_and_slope, which has `float& slope` too and sets it to the derivative in x.
// `is_precise`: as kPrecise of expression_math.cuh.
void write_function(SourceWriter& out, const char* name, const char* arguments,
                    const Expression& value, bool is_precise);

}  // namespace lssar
