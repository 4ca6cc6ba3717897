// The "time" of a candidate on a virtual device: counted, not measured, and the same on every
// machine.
//
// A run at small lengths is counted kernel by kernel, and each kernel's counts are put through the
// rates of the target's usual GPU, as the cost model's amounts are:
//
//   tensor   flop of matrix products (mma.sync reaches a part of the rate)
//   special  special functions, by lane
//   issue    warp instructions, 32 lanes each
//   shared   passes over the banks; of wgmma's operands, which are not counted, the model's bytes
//   l2       sectors of 32 bytes and bytes of bulk copies; bytes added to sums, sum_cost times
//   dram     what kernels on whole rows read and write; of others nothing
//
// They are combined as in the cost model (combine). The model also gives what no count shows of a
// kernel that walks over tiles (KernelExtent): how much overlaps, idle SMs at the end, starts and
// ends of blocks, loads that come late, turns that ordered sums of dq wait for. Counts are scaled
// to the task: by the tiles that a kernel walks over, or, for kernels on whole rows, by the rows.
// With varlen a few of the task's sequences run, shortened alike. What orders them is one block.
// Every launch costs the GPU's launch time. A larger count never gives less time. Threads: one at a
// time.
#pragma once

#include <memory>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "autotune/measure/check_truth.h"
#include "autotune/model/cost_model.h"
#include "runtime/engine.h"
#include "virtual/count/block_trace.h"

namespace lssar {

// Milliseconds that a kernel on whole rows takes.
double counted_rows_ms(const LaunchCounters& counters, const GpuModel& gpu);
// The time of a kernel that walks over tiles: `scale` times what was counted.
double counted_tiles_ms(const LaunchCounters& counters, const GpuModel& gpu, Variant variant,
                        const KernelExtent& extent, double scale);

// What was counted, and the task that it is part of.
struct CountedTask {
  const Problem& run_problem;
  const Sizes& run_sizes;
  const Problem& problem;
  const Sizes& sizes;
  SequenceLengths run_lengths = {}, lengths = {};  // with varlen neither is empty
};
// The time of all kernels of a schedule's task, without launches. REQUIRES: validate(schedule,
// problem, target).ok() for both problems.
double counted_ms(const std::vector<KernelCounters>& kernels, const CountedTask& task,
                  const Schedule& schedule, const Target& target, const GpuModel& gpu);

// A candidate on a counting device of its own, which shares `engine`'s compiler and cache.
class CountedRun {
 public:
  CountedRun(const RunnerTask& task, const CandidateSpec& candidate, const KernelSource& source,
             Engine& engine)
      : task_(task), candidate_(candidate), source_(source), engine_(engine) {}

  // Call it before prepare(): where to record what the kernels do.
  void record(BlockTrace* trace) { trace_ = trace; }

  // Compiles, with these options besides the usual ones. `truths` makes what a backward reads.
  // Errors: see verdict_of_prepare.
  Status prepare(InputKind data, TruthSource& truths,
                 const std::vector<std::string>& compile_options = {});
  // Runs the candidate. Its errors: see verdict_of_run.
  Result<double> ms(const GpuModel& gpu);

  // After ms(): the counts, the sizes and lengths that ran, and the image.
  std::vector<KernelCounters> counters() const { return counting_->device().kernel_counters(); }
  const Sizes& sizes() const { return sizes_; }
  const SequenceLengths& lengths() const { return lengths_; }
  const Image& image() const { return kernel_->loaded->image; }
  const std::string& source() const { return kernel_->source.source; }

 private:
  const RunnerTask& task_;
  const CandidateSpec& candidate_;
  const KernelSource& source_;
  Engine& engine_;

  Problem problem_;
  Sizes sizes_;
  SequenceLengths lengths_, task_lengths_;  // with varlen: what runs, and what the task has
  RandomInputs inputs_;
  SavedTensors saved_;
  BlockTrace* trace_ = nullptr;
  std::unique_ptr<Engine> counting_;
  std::shared_ptr<const PreparedKernel> kernel_;
};

}  // namespace lssar
