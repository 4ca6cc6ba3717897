// The ways that an iteration of a loop may take through its branches.
//
// Internal to inspect/. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/sass.h"

namespace lssar {

// One way from the first instruction of an iteration to the last.
struct LoopWay {
  std::vector<uint32_t> instructions;  // indices in the order of execution
  uint32_t tensor = 0, special = 0, fma = 0;
};

// Ways with the most tensor instructions, shortest first. Ways differ in their special functions or
// multiply-adds by more than a fifth; of those that differ by less, the shortest stands for all.
// (What it leaves out are masks, retries of waits and rare values.) At most kMostWays. Empty: the
// loop has no tensor instruction, or no way back to its beginning.
inline constexpr size_t kMostWays = 6;
std::vector<LoopWay> loop_ways(const SassKernel& kernel, const SassLoop& loop);

}  // namespace lssar
