// Figures of trained models' attention, for the page of `lssar report --attention`. Programs such
// as examples/train/looking.py write them; docs/inspecting.md has the format. Threads: pure
// functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace lssar {

// The list of models in `figures`, with every value that the page reads checked. Errors
// (kInvalidArgument) begin with `name` and name the field.
Result<nlohmann::json> models_of_figures(const nlohmann::json& figures, const std::string& name);

}  // namespace lssar
