// Score functions as one line of text, for options and the C API.
#pragma once

#include <string_view>

#include "base/status.h"
#include "score/score_function.h"

namespace lssar {

// `text` is a JSON object of ScoreFunction's fields, or fields separated by commas:
// "phi=relu(x)^2,normalizer=sum_abs". Commas within brackets do not count. The first field may be
// the name of a whole score function, "lssar", "softmax" or "sigmoid", which the other fields
// change. Omitted fields have their defaults. kInvalidArgument says what is wrong and, in an
// expression, at which character.
Result<ScoreFunction> parse_score(std::string_view text);

}  // namespace lssar
