// A thread block that runs: its shared memory and barriers. The block runner owns it; faults and
// the handlers of synchronising instructions read it.
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
  uint32_t expected = 0;  // threads; 0: none has come yet
  uint32_t arrived = 0;   // threads that came by bar.arrive
  bool whole_block = false;
  uint32_t ones = 0;   // bar.red: lanes whose predicate held
  uint32_t total = 0;  // bar.red: lanes that came with a predicate
  SyncClock clock;     // strict: what the threads that came had seen
};

struct Cta {
  Cluster* cluster = nullptr;  // the cluster that it belongs to
  const LaunchContext* launch = nullptr;
  std::array<uint32_t, 3> index = {0, 0, 0};  // in the grid
  uint32_t rank = 0;                          // in its cluster
  uint8_t* shared = nullptr;
  uint32_t free_registers = 0;  // setmaxnreg.inc may take these
  std::array<BarrierState, kNumBarriers> barriers;
};

}  // namespace lssar::vdev
