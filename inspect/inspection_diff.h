// What differs between two kernels: source, resources, instructions.
//
// Threads: as Engine.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "inspect/inspection.h"

namespace lssar {

struct DiffSide {
  std::string name;  // for headings: "p=3"
  Inspection inspection;
};

// A unified diff of both sources without their header comments, by the system's diff program.
// Errors: those of run_program; kIoError where diff fails.
Result<std::string> source_diff(const DiffSide& a, const DiffSide& b);

// The diff, then tables: resources of kernels with the same name, instructions by class of the
// machine code and of the counted runs.
Result<std::string> diff_text(const DiffSide& a, const DiffSide& b);

}  // namespace lssar
