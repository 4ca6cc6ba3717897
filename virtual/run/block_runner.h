// Runs the blocks of a launch, one cluster at a time, on one thread: warps in turn until each waits
// or ends, diverged lanes of a warp lowest basic block first. With a schedule seed, warps take
// turns in an order and for lengths drawn from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "virtual/async/async_engine.h"
#include "virtual/async/mbarrier.h"
#include "virtual/check/checker.h"
#include "virtual/count/block_recorder.h"
#include "virtual/count/kernel_counts.h"
#include "virtual/program/kernel_program.h"
#include "virtual/state/cta.h"
#include "virtual/state/elected_lane.h"
#include "virtual/state/memory_map.h"
#include "virtual/state/random.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

class GlobalRecord;
class WgmmaUnit;

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

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // To be called before the clusters of a launch. kOutOfMemory.
  Status prepare(const LaunchContext& launch);
  // Runs cluster `index` of the grid, x fastest. kDeviceError: a fault, a deadlock, the watchdog.
  Status run(uint64_t index);
  // What the checks of the strict mode report of it.
  std::vector<Report> take_reports();
  // To be called after the last one: hands what was counted to the launch.
  void finish() { counts_.end(); }
  // Warp instructions executed by the last run.
  uint64_t instructions() const { return instructions_; }

  // For instructions that synchronise, and for faults.
  const LaunchContext& launch() const { return launch_; }
  std::vector<Cta>& ctas() { return ctas_; }
  std::vector<Warp>& warps() { return warps_; }
  std::vector<uint32_t>& warp_registers() { return warp_registers_; }
  Random& random() { return random_; }
  AsyncEngine& async() { return *async_; }
  MbarrierTable& mbarriers() { return *mbarriers_; }
  WgmmaUnit& wgmma() { return *wgmma_; }
  Checker* checker() { return launch_.strict ? checker_.get() : nullptr; }
  // Null but for the cluster whose events are recorded.
  BlockRecorder* recorder() { return recorder_; }
  // Something happened that a waiting lane may wait for.
  void note_event() { ++events_; }
  void cluster_arrive(Warp& warp, const Op& op);
  void cluster_wait(Warp& warp, const Op& op);

 private:
  struct AlignedFree {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<uint8_t[], AlignedFree>;
  static bool grow(Memory& memory, size_t& capacity, size_t bytes);

  uint32_t num_warps() const { return launch_.num_warps() * launch_.cluster_size(); }
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
    if (launch_.counts == nullptr) return;
    counts_.add_run(block.first_op + begin, block.first_op + end, mask);
    if (recorder_ != nullptr)
      recorder_->ran(warp, block.first_op + begin, block.first_op + end, mask);
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
  void try_complete_cluster();
  Warp* first_warp(const Cta& cta) { return warps_.data() + cta.rank * launch_.num_warps(); }
  bool ends_by_itself() const;
  [[noreturn]] void report_deadlock();

  LaunchContext launch_;
  RunnerCounts counts_;
  BlockRecorder* recorder_ = nullptr;
  std::vector<Cta> ctas_;
  std::vector<Warp> warps_;                                   // of all blocks of the cluster
  std::vector<std::array<uint32_t, kNumBarriers>> waiting_;   // lanes at bar.sync, by warp
  std::vector<std::array<uint32_t, kNumBarriers>> arriving_;  // lanes at bar.arrive, by warp
  std::vector<std::array<uint32_t, 2>> cluster_lanes_;  // arrived; may pass: at barrier.cluster
  SyncClock cluster_clock_;                             // of those that have arrived
  SyncClock cluster_passed_;                            // of those that have passed
  std::vector<uint32_t> warp_registers_;                // per thread, as setmaxnreg leaves them
  std::vector<WarpChecks> warp_checks_;
  std::vector<uint32_t> order_;  // in which warps take turns
  std::unique_ptr<AsyncEngine> async_;
  std::unique_ptr<MbarrierTable> mbarriers_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<WgmmaUnit> wgmma_;
  Random random_;
  uint64_t instructions_ = 0;
  uint64_t events_ = 0;
  uint32_t blocks_left_ = 0;  // basic blocks of the turn
  Memory registers_, shared_, local_;
  size_t registers_capacity_ = 0, shared_capacity_ = 0, local_capacity_ = 0;
  size_t shared_stride_ = 0;
};

}  // namespace lssar::vdev
