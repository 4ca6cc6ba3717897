// A thread block being run: its shared memory and barriers. Owned by the block runner, seen by
// faults and by the handlers of instructions that synchronise.
#pragma once

#include <array>
#include <cstdint>

#include "virtual/program/program.h"
#include "virtual/state/vector_clock.h"

namespace lssar::vdev {

struct Cluster;        // cluster.h
struct LaunchContext;  // launch_context.h

inline constexpr uint32_t kNumBarriers = 16;

struct BarrierState {
  uint32_t expected = 0;  // threads; 0: nobody has come yet
  uint32_t arrived = 0;   // threads that came by bar.arrive
  bool whole_block = false;
  uint32_t ones = 0;   // lanes whose predicate held, of bar.red
  uint32_t total = 0;  // lanes that brought one
  SyncClock clock;     // strict: what those that came had seen
};

struct Cta {
  Cluster* cluster = nullptr;  // that it is a part of
  const LaunchContext* launch = nullptr;
  std::array<uint32_t, 3> index = {0, 0, 0};  // in the grid
  uint32_t rank = 0;                          // in its cluster
  uint8_t* shared = nullptr;
  uint32_t free_registers = 0;  // that setmaxnreg.inc may take
  std::array<BarrierState, kNumBarriers> barriers;
};

}  // namespace lssar::vdev
