// A launch as the blocks that run it see it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "virtual/program/kernel_program.h"
#include "virtual/state/approx_mode.h"
#include "virtual/state/async_timing.h"
#include "virtual/state/elected_lane.h"
#include "virtual/state/memory_map.h"

namespace lssar::vdev {

class BlockRecorder;
class GlobalRecord;
struct LaunchCounts;

// What the blocks of a launch have in common; constant while they run.
struct LaunchContext {
  const KernelProgram* program = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  uint32_t shared_bytes = 0;  // static and dynamic
  const uint8_t* params = nullptr;
  std::shared_ptr<const RangeTable> ranges;
  uint64_t max_block_instructions = 0;
  uint64_t grid_id = 0;
  uint32_t num_sms = 1;
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  ApproxMode approx = ApproxMode::kNearest;
  LaunchCounts* counts = nullptr;             // null: nothing is counted
  BlockRecorder* recorder = nullptr;          // null: nothing is recorded; needs `counts`
  AsyncTiming timing = AsyncTiming::kLatest;  // not kBySeed
  uint64_t seed = 0;
  ElectedLane elected_lane = ElectedLane::kLowest;
  bool strict = false;
  bool letter = false;                    // with strict
  bool many_threads = false;              // run the clusters
  GlobalRecord* global_record = nullptr;  // where strict

  uint32_t cluster_size() const { return cluster[0] * cluster[1] * cluster[2]; }
  uint64_t num_clusters() const { return num_blocks() / cluster_size(); }
  uint32_t num_threads() const { return block[0] * block[1] * block[2]; }
  uint32_t num_warps() const { return (num_threads() + kLanes - 1) / kLanes; }
  uint64_t num_blocks() const { return uint64_t{grid[0]} * grid[1] * grid[2]; }
};

}  // namespace lssar::vdev
