// Runs a problem's kernels briefly on a counting virtual device and records what one block of each
// does. Also checks their accuracy on the engine's own device.
//
// Used by `lssar report`. Threads: as Engine.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "inspect/timeline.h"
#include "reference/numerics.h"
#include "runtime/engine.h"

namespace lssar {

struct TracedKernels {
  Sizes sizes;
  std::vector<Timeline> timelines;  // of kernels with tiles, in the order of their launch
  std::vector<KernelCounters> counters;
  double machine_instructions = 1;  // see TimelineInput
};

// Traces the schedule's kernels for open lengths. Errors: those of compiling and running.
Result<TracedKernels> trace_kernels(Engine& engine, const Problem& problem,
                                    const Schedule& schedule, const GpuModel& gpu);

struct AccuracyRow {
  std::string output;  // "o", "dq"
  double error = 0;    // relative L2, compared with the float64 reference
  double allowed = 0;
  double plain = 0;  // of the plain kernel (portable, default tiles)
  double worst_abs = 0;
  bool passed = false;
};

struct Accuracy {
  Sizes sizes;
  std::string device;  // the one that ran it
  std::vector<AccuracyRow> rows;
};

// Uses Gaussian inputs of a few hundred queries and keys. kUnsupported if the pass has no
// reference.
Result<Accuracy> check_accuracy(Engine& engine, const Problem& problem, const Schedule& schedule);

}  // namespace lssar
