// The JSON form of what a launch is made with: in captures, and between the tuner and its workers.
// Threads: pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"

namespace lssar {

nlohmann::json to_json(const LaunchStep& step);
// Errors name the field: limits are those that a launch or a tensor map has on any GPU.
Result<LaunchStep> launch_step_from_json(const nlohmann::json& json);

// What to_json(sizes) makes; `where` names the object in errors.
Result<Sizes> sizes_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace lssar
