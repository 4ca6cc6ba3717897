// The JSON form of launches and sizes, for captures and for the tuner's worker processes. Threads:
// pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"

namespace lssar {

nlohmann::json to_json(const LaunchStep& step);
// Errors name the field. The limits are those of a launch or a tensor map on any GPU.
Result<LaunchStep> launch_step_from_json(const nlohmann::json& json);

// Reads what to_json(sizes) writes. `where` names the object in errors.
Result<Sizes> sizes_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace lssar
