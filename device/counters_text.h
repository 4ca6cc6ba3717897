// Counters as a table for people and as JSON for programs. Used by the command.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "device/launch_counters.h"

namespace lssar {

const char* to_string(InstructionClass instruction_class);
const char* to_string(TensorType type);
const char* to_string(AccessKind kind);

// One block of lines per kernel, in the order given, and their sum if there are several. Ends with
// a newline. Rows of zeros are left out.
std::string counters_table(const std::vector<KernelCounters>& kernels);

// {"kernels": [{"kernel": ..., ...}], "total": {...}}. Every field is there, also if it is 0.
nlohmann::json counters_json(const std::vector<KernelCounters>& kernels);

}  // namespace lssar
