// Runs the blocks of a launch, one at a time, on one thread: warps in turn until each waits or
// ends, diverged lanes of a warp lowest basic block first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/virtual/kernel_counts.h"
#include "runtime/virtual/kernel_program.h"
#include "runtime/virtual/memory_map.h"
#include "runtime/virtual/warp.h"

namespace lssar::vdev {

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
  ApproxMode approx = ApproxMode::kNearest;
  LaunchCounts* counts = nullptr;  // null: nothing is counted

  uint32_t num_threads() const { return block[0] * block[1] * block[2]; }
  uint32_t num_warps() const { return (num_threads() + kLanes - 1) / kLanes; }
  uint64_t num_blocks() const { return uint64_t{grid[0]} * grid[1] * grid[2]; }
};

inline constexpr uint32_t kNumBarriers = 16;

struct BarrierState {
  uint32_t expected = 0;  // threads; 0: nobody has come yet
  uint32_t arrived = 0;   // threads that came by bar.arrive
  bool whole_block = false;
  uint32_t ones = 0;   // lanes whose predicate held, of bar.red
  uint32_t total = 0;  // lanes that brought one
};

// The block being run, as faults and the handlers' callbacks see it.
struct BlockContext {
  const LaunchContext* launch = nullptr;
  std::array<uint32_t, 3> index = {0, 0, 0};
  uint64_t instructions = 0;
};

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // To be called before the blocks of a launch. kOutOfMemory.
  Status prepare(const LaunchContext& launch);
  // Runs block `index` of the grid, x fastest. kDeviceError: a fault, a deadlock, the watchdog.
  Status run(uint64_t index);
  // To be called after the last one: hands what was counted to the launch.
  void finish() { counts_.end(); }
  // Warp instructions executed by the last run.
  uint64_t instructions() const { return context_.instructions; }

 private:
  struct AlignedFree {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<uint8_t[], AlignedFree>;
  static bool grow(Memory& memory, size_t& capacity, size_t bytes);

  void reset_block(uint64_t index);
  void fill_constants(Warp& warp);
  void fill_specials(Warp& warp);
  void run_warps();
  void run_warp(Warp& warp);
  Split* pick(Warp& warp);
  void run_ops(Warp& warp, Split& split, const BasicBlock& block);
  void count_run(const BasicBlock& block, uint32_t begin, uint32_t end, uint32_t mask) {
    if (launch_.counts == nullptr) return;
    counts_.add_run(block.first_op + begin, block.first_op + end, mask);
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
  void try_complete(uint32_t id);
  void release(uint32_t id);
  [[noreturn]] void report_deadlock();

  LaunchContext launch_;
  RunnerCounts counts_;
  BlockContext context_;
  std::vector<Warp> warps_;
  std::array<BarrierState, kNumBarriers> barriers_;
  std::vector<std::array<uint32_t, kNumBarriers>> waiting_;   // lanes at bar.sync, by warp
  std::vector<std::array<uint32_t, kNumBarriers>> arriving_;  // lanes at bar.arrive, by warp
  Memory registers_, shared_, local_;
  size_t registers_capacity_ = 0, shared_capacity_ = 0, local_capacity_ = 0;
};

}  // namespace lssar::vdev
