// JSON texts that somebody else may have written: strictly read, with errors for people. Used by
// every reader of problems, schedules, records, captures and comparisons. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace lssar {

// The value of `text`. Errors (kInvalidArgument) say where, and begin with `name`: a text that is
// not JSON, a key that an object has twice, a whole number beyond 64 bits (it would be read as
// another one), a number beyond double.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

}  // namespace lssar
