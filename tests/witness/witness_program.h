// The witness programs: libraries that nvcc made of programs/*.cu, opened over the stand-in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/witness/witness_case.h"

namespace lssar::test {

// Opens the program and registers its kernels with the stand-in; it stays open. kMissing says what
// the linker says.
Result<std::vector<witness::Case>> open_witness_program(const std::string& name);

struct WitnessRun {
  uint64_t seed = 0;
  bool strict = true;
};
struct WitnessOutcome {
  std::string difference;             // what the case gives
  std::string report;                 // what the device or the stand-in refused or reported
  std::vector<std::string> launched;  // entries, one for each launch
  bool is_clean() const { return difference.empty() && report.empty(); }
};
// Runs the case on a device of its own, sm_90a with one thread.
WitnessOutcome run_witness(const witness::Case& one, const WitnessRun& run);

}  // namespace lssar::test
