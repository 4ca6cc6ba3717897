// Sets up a block, and runs its warps in turn.
#include "virtual/run/block_runner.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/round_up.h"
#include "virtual/async/wgmma_unit.h"
#include "virtual/state/fault.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

constexpr size_t kMemoryAlignment = 1024;  // what TMA swizzles need of shared memory
// Fills what no instruction has written: NaN as a float, a far address as a pointer.

}  // namespace

void BlockRunner::AlignedFree::operator()(void* memory) const { std::free(memory); }

BlockRunner::BlockRunner()
    : async_(std::make_unique<AsyncEngine>()),
      cluster_barrier_(std::make_unique<ClusterBarrier>(cluster_)),
      mbarriers_(std::make_unique<MbarrierTable>()),
      wgmma_(std::make_unique<WgmmaUnit>(cluster_)) {
  cluster_.async = async_.get();
  cluster_.barrier = cluster_barrier_.get();
  cluster_.mbarriers = mbarriers_.get();
  cluster_.wgmma = wgmma_.get();
}

BlockRunner::~BlockRunner() {
  for (Warp& warp : cluster_.warps) std::free(warp.async.items);
}

bool BlockRunner::grow(Memory& memory, size_t& capacity, size_t bytes) {
  if (bytes <= capacity) return true;
  const size_t rounded = round_up(bytes, kMemoryAlignment);
  memory.reset(static_cast<uint8_t*>(std::aligned_alloc(kMemoryAlignment, rounded)));
  capacity = memory ? rounded : 0;
  return memory != nullptr;
}

Status BlockRunner::prepare(const LaunchContext& launch) {
  cluster_.launch = launch;
  counts_.begin(launch.counts);
  const KernelProgram& program = *launch.program;
  const size_t warps = num_warps();
  const size_t local = size_t{program.local_bytes} * kLanes;
  shared_stride_ = round_up(launch.shared_bytes, kMemoryAlignment);
  if (!grow(registers_, registers_capacity_, warps * program.register_bytes) ||
      !grow(shared_, shared_capacity_, shared_stride_ * launch.cluster_size()) ||
      !grow(local_, local_capacity_, warps * local)) {
    return out_of_memory(
        fmt::format("kernel {}: registers, shared and local memory of a block", program.name));
  }
  resize_warps(warps);
  cluster_.ctas.resize(launch.cluster_size());
  for (uint32_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
    cluster_.ctas[rank].cluster = &cluster_;
    cluster_.ctas[rank].launch = &cluster_.launch;
    cluster_.ctas[rank].rank = rank;
    cluster_.ctas[rank].shared = shared_.get() + rank * shared_stride_;
  }
  for (uint32_t i = 0; i < warps; ++i) place_warp(i);
  if (launch.strict && !checker_) checker_ = std::make_unique<Checker>(cluster_);
  cluster_.checker = launch.strict ? checker_.get() : nullptr;
  return {};
}

void BlockRunner::resize_warps(size_t warps) {
  for (size_t i = warps; i < cluster_.warps.size(); ++i) std::free(cluster_.warps[i].async.items);
  const size_t old_size = cluster_.warps.size();
  cluster_.warps.resize(warps);
  for (size_t i = old_size; i < warps; ++i) std::memset(&cluster_.warps[i], 0, sizeof(Warp));
  waiting_.resize(warps);
  arriving_.resize(warps);
  cluster_.warp_registers.resize(warps);
  warp_checks_.resize(warps);
  order_.resize(warps);
}

void BlockRunner::place_warp(uint32_t agent) {
  const KernelProgram& program = *cluster_.launch.program;
  Warp& warp = cluster_.warps[agent];
  Cta& cta = cluster_.ctas[agent / cluster_.launch.num_warps()];
  warp.registers = registers_.get() + size_t{agent} * program.register_bytes;
  warp.local = local_.get() + size_t{agent} * program.local_bytes * kLanes;
  warp.local_bytes = program.local_bytes;
  warp.shared = cta.shared;
  warp.shared_begin = cta.rank << kRankShift;
  warp.shared_bytes = cluster_.launch.shared_bytes;
  warp.params = cluster_.launch.params;
  warp.params_bytes = program.params_bytes;
  warp.range_begin = 0;
  warp.range_bytes = 0;
  warp.approx = cluster_.launch.approx;
  warp.counters = counts_.accesses();
  warp.checks = cluster_.launch.strict ? &warp_checks_[agent] : nullptr;
  warp.index = agent % cluster_.launch.num_warps();
  warp.agent = agent;
  warp.cta = &cta;
  warp.async.timing = cluster_.launch.timing;
  fill_constants(warp);
}

void BlockRunner::reset_cluster(uint64_t index) {
  const auto& c = cluster_.launch.cluster;
  const std::array<uint64_t, 3> clusters = {cluster_.launch.grid[0] / c[0],
                                            cluster_.launch.grid[1] / c[1],
                                            cluster_.launch.grid[2] / c[2]};
  const std::array<uint64_t, 3> cluster = {index % clusters[0], index / clusters[0] % clusters[1],
                                           index / clusters[0] / clusters[1]};
  cluster_.random = Random(mix_bits(cluster_.launch.seed) ^ mix_bits(index + 1));
  cluster_.instructions = 0;
  cluster_.events = 0;
  async_->reset(cluster_.launch.timing, &cluster_.random);
  mbarriers_->clear();
  wgmma_->reset();
  cluster_barrier_->reset();
  for (Cta& cta : cluster_.ctas) reset_cta(cta, cluster);
  for (Warp& warp : cluster_.warps) reset_warp(warp);
  if (Checker* c2 = cluster_.checker) c2->begin_cluster(index);
}

void BlockRunner::reset_cta(Cta& cta, const std::array<uint64_t, 3>& cluster) {
  const auto& c = cluster_.launch.cluster;
  const std::array<uint32_t, 3> within = {cta.rank % c[0], cta.rank / c[0] % c[1],
                                          cta.rank / c[0] / c[1]};
  for (size_t i = 0; i < 3; ++i) {
    cta.index[i] = static_cast<uint32_t>(cluster[i] * c[i]) + within[i];
  }
  if (cluster_.launch.shared_bytes != 0)
    std::memset(cta.shared, kPoisonByte, cluster_.launch.shared_bytes);
  cta.barriers = {};
  const uint32_t per_thread = registers_per_thread();
  cta.free_registers = 0;
  for (uint32_t i = 0; i < cluster_.launch.num_warps(); ++i) {
    cluster_.warp_registers[cta.rank * cluster_.launch.num_warps() + i] = per_thread;
  }
}

// The registers per thread of a kernel that is compiled for this many threads; see setmaxnreg.
uint32_t BlockRunner::registers_per_thread() const {
  constexpr uint32_t kFile = 65536;
  constexpr uint32_t kUnit = 8;
  constexpr uint32_t kMost = 255;
  const ParsedKernel& kernel = *cluster_.launch.program->parsed;
  if (kernel.max_registers != 0) return kernel.max_registers;
  const uint32_t threads = std::max(cluster_.launch.num_threads(), kernel.max_threads);
  const uint32_t fair = kFile / (threads * std::max(kernel.min_blocks, 1u)) / kUnit * kUnit;
  return std::min(fair, kMost);
}

void BlockRunner::reset_warp(Warp& warp) {
  const uint32_t i = warp.agent;
  waiting_[i].fill(0);
  arriving_[i].fill(0);
  warp_checks_[i] = {};
  const uint32_t threads = cluster_.launch.num_threads() - warp.index * kLanes;
  warp.live = threads >= kLanes ? kAllLanes : (1u << threads) - 1;
  warp.mask = 0;
  warp.missing = 0;
  warp.missing_any_op = false;
  warp.blocked = false;
  warp.polled = 0;
  warp.carry = 0;
  // Drawn even if it is not used, so that a seed always gives the same schedule.
  const uint32_t drawn =
      cluster_.launch.seed == 0 ? 0 : static_cast<uint32_t>(cluster_.random.next()) | 1;
  warp.elect_seed = cluster_.launch.elected_lane == ElectedLane::kDrawn ? drawn : 0;
  warp.num_splits = 1;
  warp.splits[0] = {0, 0, warp.live, 0, nullptr, 0, WaitKind::kNone};
  warp.async.size = 0;
  std::memset(warp.async.commits, 0, sizeof warp.async.commits);
  std::memset(warp.async.waited, 0, sizeof warp.async.waited);
  fill_specials(warp);
  for (const auto& [offset, bytes] : cluster_.launch.program->undefined) {
    std::memset(warp.registers + offset, kPoisonByte, bytes);
  }
  if (warp.local_bytes != 0)
    std::memset(warp.local, kPoisonByte, size_t{warp.local_bytes} * kLanes);
}

Status BlockRunner::run(uint64_t index) {
  if (cluster_.launch.program->blocks.empty()) return {};
  BlockRecorder* const recorder = cluster_.launch.recorder;
  cluster_.recorder = recorder != nullptr && recorder->cluster() == index ? recorder : nullptr;
  try {
    reset_cluster(index);
    run_warps();
    finish_cluster();
  } catch (const LaunchFault& fault) {
    return fault.status;
  }
  return {};
}

std::vector<Report> BlockRunner::take_reports() {
  return cluster_.checker == nullptr ? std::vector<Report>() : cluster_.checker->take_reports();
}

void BlockRunner::run_warps() {
  constexpr uint32_t kIdleRounds = 2;  // without an event, then it is a deadlock
  for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
  uint32_t idle = 0;
  while (true) {
    if (cluster_.launch.seed != 0) {
      for (size_t i = order_.size(); i > 1; --i) {
        std::swap(order_[i - 1], order_[cluster_.random.below(static_cast<uint32_t>(i))]);
      }
    }
    const uint64_t before = cluster_.events;
    bool any_live = false;
    bool any_runs = false;
    for (const uint32_t i : order_) {
      Warp& warp = cluster_.warps[i];
      if (warp.live == 0) continue;
      begin_turn(warp);
      run_warp(warp);
      async_->step();
      wgmma_->step();
      if (cluster_.launch.timing == AsyncTiming::kRandom && warp.async.size != 0) {
        (*cluster_.launch.program->handlers->deliver_copies)(warp, cluster_.random.next());
      }
      any_live |= warp.live != 0;
      any_runs |= warp.live == 0 || can_run(warp);
    }
    if (!any_live) return;
    idle = cluster_.events != before || any_runs ? 0 : idle + 1;
    if (idle < kIdleRounds) continue;
    if (!async_->force_oldest() && !ends_by_itself()) report_deadlock();
    idle = 0;
  }
}

// Whether lanes poll that count their polls and trap.
bool BlockRunner::ends_by_itself() const {
  if (!cluster_.launch.program->limits_waits) return false;
  for (const Warp& warp : cluster_.warps) {
    for (uint32_t i = 0; i < warp.num_splits && warp.live != 0; ++i) {
      if (warp.splits[i].wait == WaitKind::kPolled) return true;
    }
  }
  return false;
}

// Call it when all warps have ended.
void BlockRunner::finish_cluster() {
  while (async_->force_oldest()) {
  }
}

}  // namespace lssar::vdev
