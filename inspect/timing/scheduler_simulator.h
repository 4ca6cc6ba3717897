// Plays a loop on one scheduler of an SM: its warps issue in order, at most one instruction per
// clock, and wait for stall counts, scoreboards, pipes, tensor products, barriers and data.
//
// The other three schedulers do the same, each with one warp of every warp group; what they share
// (shared memory, the L2) gives this one a quarter. Deterministic. Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "inspect/timing/loop_program.h"

namespace lssar {

// What a clock of a warp went to.
enum class ClockUse : uint8_t {
  kIssue,      // an instruction was issued
  kOtherWarp,  // it could issue, but another warp did
  kStall,      // the stall count of its last instruction
  kFma,        // both pipes were busy
  kAlu,        // the pipe was busy
  kUniform,    // the pipe was busy
  kSpecial,    // the queue was full, or a result is waited for
  kShared,     // the queue was full, or a load or a shuffle is waited for
  kMemory,     // a result of another load
  kTensor,     // the queue was full, or products are waited for
  kTurn,       // another warp's turn, or warps that meet
  kData,       // an mbarrier: its test, and tiles that the L2 brings
  kSync,       // fences and barriers that cost their latency
};
inline constexpr int kNumClockUses = 13;
const char* clock_use_name(ClockUse use);  // "issue", "other warp", ...

struct LoopTiming {
  double clocks = 0;  // of an iteration
  // The mean over warps. The sum is `clocks`.
  std::array<double, kNumClockUses> uses = {};
  // What an iteration of all warps takes of each resource: no order can be faster.
  double issue_bound = 0, fma_bound = 0, alu_bound = 0, special_bound = 0, tensor_bound = 0,
         shared_bound = 0, data_bound = 0;

  double bound() const;  // the largest
};

// kInternal: the warps wait for each other for ever, which a loop that runs cannot do.
Result<LoopTiming> simulate(const LoopProgram& program, const TimingConstants& constants);

}  // namespace lssar
