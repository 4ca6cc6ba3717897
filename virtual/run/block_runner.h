// Runs the blocks of a launch, one cluster at a time, on one thread. Warps take turns; each runs
// until it waits or ends. If a warp's lanes diverge, those at the lowest basic block run first.
// With a schedule seed, the order and length of the warps' turns are drawn from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "virtual/async/async_engine.h"
#include "virtual/async/cluster_barrier.h"
#include "virtual/check/checker.h"
#include "virtual/count/block_recorder.h"
#include "virtual/count/kernel_counts.h"
#include "virtual/state/cluster.h"
#include "virtual/state/mbarrier_table.h"

namespace lssar::vdev {

class WgmmaUnit;

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Call it before the clusters of a launch. kOutOfMemory.
  Status prepare(const LaunchContext& launch);
  // Runs cluster `index` of the grid, x fastest. kDeviceError: a fault, a deadlock, or too many
  // instructions.
  Status run(uint64_t index);
  // The strict mode's reports of the last run.
  std::vector<Report> take_reports();
  // Call it after the last cluster: adds what was counted to the launch's counts.
  void finish() { counts_.end(); }
  // Warp instructions executed by the last run.
  uint64_t instructions() const { return cluster_.instructions; }

 private:
  struct AlignedFree {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<uint8_t[], AlignedFree>;
  static bool grow(Memory& memory, size_t& capacity, size_t bytes);

  uint32_t num_warps() const {
    return cluster_.launch.num_warps() * cluster_.launch.cluster_size();
  }
  void resize_warps(size_t warps);
  void place_warp(uint32_t agent);
  uint32_t registers_per_thread() const;
  void reset_cluster(uint64_t index);
  void reset_cta(Cta& cta, const std::array<uint64_t, 3>& cluster);
  void reset_warp(Warp& warp);
  void fill_constants(Warp& warp);
  void fill_specials(Warp& warp);
  uint32_t special_value(const Warp& warp, Special which, uint32_t lane) const;
  void run_warps();
  void finish_cluster();
  void begin_turn(Warp& warp);
  static bool can_run(const Warp& warp);
  void run_warp(Warp& warp);
  Split* pick(Warp& warp);
  void run_ops(Warp& warp, Split& split, const BasicBlock& block);
  void run_checked(Warp& warp, const Op& op, bool full);
  void warp_ended(Warp& warp, const Op& op);
  void yield_after_poll(Warp& warp);
  void count_run(const Warp& warp, const BasicBlock& block, uint32_t begin, uint32_t end,
                 uint32_t mask) {
    if (cluster_.launch.counts == nullptr) return;
    counts_.add_run(block.first_op + begin, block.first_op + end, mask);
    if (cluster_.recorder != nullptr)
      cluster_.recorder->ran(warp, block.first_op + begin, block.first_op + end, mask);
  }
  void finish_block(Warp& warp, Split& split, const BasicBlock& block);
  void branch(Warp& warp, Split& split, const BasicBlock& block, uint32_t taken);
  void branch_table(Warp& warp, Split& split, const BasicBlock& block, const Op& op);
  void exit_lanes(Warp& warp, Split& split, const BasicBlock& block, uint32_t mask);
  void suspend(Warp& warp, Split& split, uint32_t op_index);
  void settle_waits(Warp& warp);
  void settle_converging(Warp& warp);
  void reach_barrier(Warp& warp, Split& split, const BasicBlock& block, const Op& op);
  void arrive(Warp& warp, const Op& op, uint32_t id, uint32_t mask);
  void check_count(Warp& warp, const Op& op, uint32_t id, uint32_t count);
  bool is_aligned_barrier(const Op& op) const;
  void check_same_barrier(Warp& warp, uint32_t id);
  void try_complete(Cta& cta, uint32_t id);
  void release(Cta& cta, uint32_t id);
  Warp* first_warp(const Cta& cta) {
    return cluster_.warps.data() + cta.rank * cluster_.launch.num_warps();
  }
  bool ends_by_itself() const;
  [[noreturn]] void report_deadlock();

  Cluster cluster_;
  RunnerCounts counts_;
  std::vector<std::array<uint32_t, kNumBarriers>> waiting_;   // lanes at bar.sync, by warp
  std::vector<std::array<uint32_t, kNumBarriers>> arriving_;  // lanes at bar.arrive, by warp
  std::vector<WarpChecks> warp_checks_;
  std::vector<uint32_t> order_;  // the order in which warps take turns
  std::unique_ptr<AsyncEngine> async_;
  std::unique_ptr<ClusterBarrier> cluster_barrier_;
  std::unique_ptr<MbarrierTable> mbarriers_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<WgmmaUnit> wgmma_;
  uint32_t blocks_left_ = 0;  // basic blocks that are left of the turn
  Memory registers_, shared_, local_;
  size_t registers_capacity_ = 0, shared_capacity_ = 0, local_capacity_ = 0;
  size_t shared_stride_ = 0;
};

}  // namespace lssar::vdev
