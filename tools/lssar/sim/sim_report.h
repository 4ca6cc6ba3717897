// What `lssar sim` prints, and the files it writes.
//
// Threads: pure functions, but for the files and standard output.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "tools/lssar/sim/sim_run.h"

namespace lssar::command {

// An output that differs between two seeds.
struct SimDifference {
  size_t argument = 0;
  uint64_t first_seed = 0, second_seed = 0;
  size_t elements = 0;  // that differ
  size_t element = 0;   // the first of them
  float first_value = 0, second_value = 0;
};

// The outputs of a run against those of the first one, bit by bit.
std::vector<SimDifference> compare_sim_runs(const SimLaunch& launch, const SimRun& first,
                                            const SimRun& run);

// Whether the outputs could be written, as far as can be said before the runs.
Status check_sim_outputs(const SimLaunch& launch);

// Writes the run's outputs to their files (base/output_file.h). All of them are complete on disk
// before the first replaces an old file. kIoError.
Status write_sim_outputs(const SimLaunch& launch, const SimRun& run);
// Whether an output goes to standard output. If so, a run's text goes to standard error.
bool writes_standard_output(const SimLaunch& launch);

struct SimResult {
  std::vector<SimRun> runs;
  std::vector<SimDifference> differences;
  bool written = false;  // the outputs, those of the first run
  bool with_counters = false;
};

void print_sim_text(const SimLaunch& launch, const SimResult& result);
void print_sim_json(const SimLaunch& launch, const SimResult& result);

}  // namespace lssar::command
