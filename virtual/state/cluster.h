// A cluster of blocks being run: its blocks and warps, and the parts of the device that serve it.
// The block runner owns and fills it; asynchronous operations, checks and faults reach each other
// through it. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "virtual/state/cta.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/random.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

class AsyncEngine;
class BlockRecorder;
class Checker;
class ClusterBarrier;
class MbarrierTable;
class WgmmaUnit;

struct Cluster {
  LaunchContext launch;
  std::vector<Cta> ctas;                 // by rank
  std::vector<Warp> warps;               // of all blocks
  std::vector<uint32_t> warp_registers;  // per thread, as setmaxnreg leaves them
  Random random;
  uint64_t instructions = 0;  // of warps, executed so far
  uint64_t events = 0;        // so far; see note_event

  // Never null while the cluster runs.
  AsyncEngine* async = nullptr;
  ClusterBarrier* barrier = nullptr;
  MbarrierTable* mbarriers = nullptr;
  WgmmaUnit* wgmma = nullptr;
  Checker* checker = nullptr;         // null: fast mode
  BlockRecorder* recorder = nullptr;  // null: this cluster's events are not recorded

  // Something happened that a waiting lane may be waiting for.
  void note_event() { ++events; }
};

inline Cluster& cluster_of(const Warp& warp) { return *warp.cta->cluster; }

}  // namespace lssar::vdev
