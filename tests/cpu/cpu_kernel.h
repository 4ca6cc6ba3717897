// A kernel of a CPU target, from problem to results, without the engine: tests of this folder run
// the source of any target at the level that the machine has.
//
// Threads: only the main thread of a test may call it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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
  std::vector<float> q, k, v;      // contiguous [batch, heads, length, dim]
  std::vector<float> grad_o = {};  // for a backward
  std::vector<float> stats = {};   // for a weighted sum: merged row sums
  std::vector<float> sink = {};    // [heads], where the score function has one
  std::vector<float> alibi_slopes = {};  // [heads], where the score function has alibi
};

struct CpuOutputs {
  std::vector<float> o;
  std::vector<float> stats;    // [4, batch, heads, seq_q]
  std::vector<float> unrounded_o;  // of run_cpu_training: o with what rounding took from it
  std::vector<float> partial_o;    // of a weighted sum
  // Written by run_cpu_training.
  std::vector<float> saved_x;  // empty if the backward wants none
  std::vector<float> dq, dk, dv;
};

struct CpuLaunches;  // cpu_launches.h

struct CpuRun {
  int threads = 1;
  // How many unused elements follow each row of q, k, v, o and their gradients. Heads of a position
  // then lie side by side. 0: contiguous.
  int gap = 0;
  std::optional<Schedule> schedule = {};
  // The target to compile for, whatever the source is made for. Empty: the machine's own level.
  std::string compile_for = {};
  // Runs each pass in place of the compiler and the cpu device.
  std::function<Status(const CpuLaunches&)> launch = {};
};

// Whether kernels can be made and run here. If not, `why` says what is missing.
bool can_run_cpu_kernels(std::string* why);

// The emitted source of `target`, compiled for the machine's own level. If that is lower, the
// instructions differ, but the C++ is the same.
Result<CpuOutputs> run_cpu_kernel(const std::string& target, const Problem& problem,
                                  const Sizes& sizes, const CpuInputs& inputs,
                                  const CpuRun& run = {});

// The same for the forward for training and then the backward, whatever problem.pass is. The latter
// has NaN in its workspace and gradients before it runs. `run.schedule` is that of both.
Result<CpuOutputs> run_cpu_training(const std::string& target, const Problem& problem,
                                    const Sizes& sizes, const CpuInputs& inputs,
                                    const CpuRun& run = {});

// The names of all CPU targets that differ for every type of elements. That with pairs of bf16
// numbers differs for bf16 only, and cpu_pairs_test is its test.
std::vector<std::string> cpu_target_names();
inline constexpr char kPairsTarget[] = "x86-64-v4-bf16";

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Whether any, or all, of values[first, first + count) are NaN.
bool has_nan(const std::vector<float>& values, int64_t first, int64_t count);
bool all_nan(const std::vector<float>& values, int64_t first, int64_t count);

}  // namespace lssar
