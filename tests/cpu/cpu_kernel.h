// A kernel of a CPU target, from problem to results, without the engine: tests of this folder run
// the source of any target at the level that the machine has.
//
// Threads: only the main thread of a test may call it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "device/device.h"

namespace lssar {

struct CpuInputs {
  std::vector<float> q, k, v;  // contiguous [batch, heads, length, dim]
};

struct CpuOutputs {
  std::vector<float> o;
  std::vector<float> stats;  // [4, batch, heads, seq_q]
};

struct CpuRun {
  int threads = 1;
  // Elements between the rows of all four tensors that belong to none of them; heads of a position
  // lie beside each other. 0: contiguous.
  int gap = 0;
  std::optional<Schedule> schedule;
};

// Whether kernels can be made and run here; else `why` says what is missing.
bool can_run_cpu_kernels(std::string* why);

// The emitted source of `target`, compiled for the machine's own level: the instructions differ
// where that is narrower, the C++ does not.
Result<CpuOutputs> run_cpu_kernel(const std::string& target, const Problem& problem,
                                  const Sizes& sizes, const CpuInputs& inputs,
                                  const CpuRun& run = {});

// The names of all CPU targets.
std::vector<std::string> cpu_target_names();

}  // namespace lssar
