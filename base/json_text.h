// Parses JSON from untrusted sources strictly, with errors that a person can act on. Used by every
// reader of problems, schedules, records, captures and comparisons. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace lssar {

// The value of `text`. Errors (kInvalidArgument) begin with `name` and say where the text is wrong.
// They are: text that is not JSON, a key that an object has twice, a whole number beyond 64 bits (a
// JSON reader would round it), a number beyond double.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

}  // namespace lssar
