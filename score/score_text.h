// Score functions as one line of text, for options and the C API.
#pragma once

#include <string_view>

#include "base/status.h"
#include "score/score_function.h"

namespace lssar {

// `text` is a JSON object of ScoreFunction's fields, or fields by commas that are outside of
// brackets: "phi=relu(x)^2,normalizer=sum_abs". The first may be the name of a whole score
// function, which the others change: "lssar", "softmax", "sigmoid". Fields that are left out have
// their defaults. kInvalidArgument: names what is wrong, and of an expression the character.
Result<ScoreFunction> parse_score(std::string_view text);

}  // namespace lssar
