// The "time" of a candidate on a virtual device: counted, not measured, and the same on every
// machine.
//
// A run at small lengths is counted kernel by kernel, and each kernel's counts are put through the
// nominal rates of one SM of the target's usual GPU:
//
//   issue    warp instructions / (issue lanes / 32)
//   special  special functions, by lane / special functions per clock
//   tensor   flop of matrix products / flop per clock (mma.sync reaches a part of it)
//   shared   passes over the banks, one per clock
//   l2       sectors of 32 bytes and bytes of bulk copies / the SM's share of the L2's bandwidth
//
// in clocks. A kernel takes the root of the sum of their squares, as in the cost model; all kernels
// together, over the GPU's sustained clock and SMs, are scaled by the scores of the task to those
// of the run, and every launch costs the GPU's launch time on top. More of any count is never less
// time. Not in it: waves, blocks per SM, latency, the size of caches.
// Threads: one at a time.
#pragma once

#include <memory>
#include <vector>

#include "autotune/candidate_runner.h"
#include "autotune/check_truth.h"
#include "autotune/cost_model.h"
#include "runtime/engine.h"
#include "runtime/virtual/block_trace.h"

namespace lssar {

// Milliseconds on one SM of `gpu`, without launches.
double counted_ms(const std::vector<KernelCounters>& kernels, const GpuModel& gpu);

// A candidate on a counting device of its own, which shares compiler and cache with `engine`.
class CountedRun {
 public:
  CountedRun(const RunnerTask& task, const CandidateSpec& candidate, const KernelSource& source,
             Engine& engine)
      : task_(task), candidate_(candidate), source_(source), engine_(engine) {}

  // Before prepare(): where to record what the kernels do.
  void record(BlockTrace* trace) { trace_ = trace; }

  // Compiles, with these options beside the usual ones; `truths` makes what a backward reads.
  // Errors: see verdict_of_prepare.
  Status prepare(InputKind data, TruthSource& truths,
                 const std::vector<std::string>& compile_options = {});
  // Runs. Errors are the candidate's: see verdict_of_run.
  Result<double> ms(const GpuModel& gpu);

  // After ms(): what was counted, of which lengths, and the image that ran.
  std::vector<KernelCounters> counters() const { return counting_->device().kernel_counters(); }
  const Sizes& sizes() const { return sizes_; }
  const Image& image() const { return kernel_->loaded->image; }
  const std::string& source() const { return kernel_->source.source; }

 private:
  const RunnerTask& task_;
  const CandidateSpec& candidate_;
  const KernelSource& source_;
  Engine& engine_;

  Problem problem_;
  Sizes sizes_;
  RandomInputs inputs_;
  SavedTensors saved_;
  BlockTrace* trace_ = nullptr;
  std::unique_ptr<Engine> counting_;
  std::shared_ptr<const PreparedKernel> kernel_;
};

}  // namespace lssar
