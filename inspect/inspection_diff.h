// The differences between two kernels: source, resources, instructions.
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

// A unified diff of both sources without their header comments, made by the system's diff program.
// Errors: those of run_program. kIoError: diff failed.
Result<std::string> source_diff(const DiffSide& a, const DiffSide& b);

// The diff, then tables: resources of kernels with the same name, and instructions by class in the
// machine code and in the counted runs.
Result<std::string> diff_text(const DiffSide& a, const DiffSide& b);

}  // namespace lssar
