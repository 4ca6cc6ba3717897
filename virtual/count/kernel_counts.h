// Counting one launch. Each runner fills RunnerCounts of its own; LaunchCounts adds them up and
// turns them into LaunchCounters.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "device/launch_counters.h"
#include "virtual/count/access_counters.h"
#include "virtual/count/instruction_class.h"
#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

class RunnerCounts;

// Outlives the launch's runners. Threads: any of them may call merge().
class LaunchCounts {
 public:
  explicit LaunchCounts(const KernelProgram& program);

  const KernelProgram& program() const { return program_; }
  const std::vector<InstructionInfo>& instructions() const { return infos_; }  // by op
  const std::vector<uint8_t>& access_modes() const { return modes_; }          // by op

  void merge(const RunnerCounts& counts);
  // Call it after the last merge. warp_instructions and launches are not set.
  LaunchCounters summary() const;
  // The instructions that were executed, in the order of the program.
  std::vector<LineCounters> lines() const;

 private:
  void add_accesses(const InstructionInfo& info, const OpAccess& access, LaunchCounters& out) const;
  WorstInstruction describe(size_t op, uint64_t lost, uint64_t requests) const;

  const KernelProgram& program_;
  std::vector<InstructionInfo> infos_;
  std::vector<uint8_t> modes_;
  std::mutex mutex_;
  std::vector<InstructionCount> runs_;  // see RunnerCounts
  std::vector<OpAccess> accesses_;      // by op
  std::array<uint64_t, kNumTmaDirections> tma_bytes_ = {};
};

// The counts of one thread that runs blocks.
class RunnerCounts {
 public:
  // Null: nothing is counted until the next begin(). `launch` outlives the last end().
  void begin(LaunchCounts* launch);
  // Adds what was counted to the launch's counts.
  void end();

  // Warps report accesses here; null if nothing is counted.
  AccessCounters* accesses() { return launch_ != nullptr ? &accesses_ : nullptr; }

  // Lanes of `mask` executed ops [first, last) together. REQUIRES: accesses() != nullptr.
  void add_run(uint32_t first, uint32_t last, uint32_t mask) {
    const auto lanes = static_cast<uint64_t>(__builtin_popcount(mask));
    runs_[first].warps += 1;
    runs_[first].lanes += lanes;
    runs_[last].warps -= 1;
    runs_[last].lanes -= lanes;
  }

 private:
  friend class LaunchCounts;

  LaunchCounts* launch_ = nullptr;
  // For each op, and one past the last: the difference to the op before, modulo 2^64. So a run of
  // ops costs the same whatever its length.
  std::vector<InstructionCount> runs_;
  std::vector<OpAccess> by_op_;
  AccessCounters accesses_ = {};
};

}  // namespace lssar::vdev
