// Agents, synchronisation and barriers. These order the accesses that checker_access.cpp compares.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/check/checker_access.h"
#include "virtual/check/global_shadow.h"
#include "virtual/program/wgmma.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/units.h"

namespace lssar::vdev {

namespace {
constexpr uint32_t kTimeReserve = 1u << 20;  // at least this many times for one cluster
}  // namespace

Checker::Checker(Cluster& cluster) : cluster_(cluster), global_(std::make_unique<GlobalShadow>()) {}
Checker::~Checker() = default;

void Checker::begin_cluster(uint64_t cluster) {
  const LaunchContext& launch = cluster_.launch;
  cluster_index_ = cluster;
  auto& warps = cluster_.warps;
  num_warps_ = launch.num_warps() * launch.cluster_size();
  for (const Knowledge& k : knowledge_) last_time_ = std::max(last_time_, k.time());
  base_ = last_time_ + 1;
  const bool forget = base_ > kMaxTime - kTimeReserve;
  if (forget) base_ = 1;
  last_time_ = base_;
  first_wgmma_ = 2 * num_warps_;
  num_agents_ = first_wgmma_ + (num_warps_ + kWarpsPerGroup - 1) / kWarpsPerGroup;
  first_other_ = num_agents_;
  check_agents();
  knowledge_.resize(num_warps_);
  taints_.resize(num_warps_);
  for (uint32_t i = 0; i < num_warps_; ++i) {
    knowledge_[i].reset(i, num_warps_ + i, warps[i].async.waited, base_);
    taint_unwritten(warps[i]);
  }
  init_fences_.assign(num_warps_, {});
  shadows_.resize(launch.cluster_size());
  for (SharedShadow& s : shadows_) {
    s.reset(launch.shared_bytes, forget, first_wgmma_, first_other_);
  }
  block_ends_.assign(launch.cluster_size(), {});
  register_uses_.assign(num_warps_, {});
  limits_of_ = ~0u;
  retired_.clear();
  seen_reports_.clear();
  reports_.clear();
  cluster_races_.clear();
  global_->begin_cluster(launch, cluster);
}

uint32_t Checker::add_agent() {
  ++num_agents_;
  check_agents();
  return num_agents_ - 1;
}

void Checker::check_agents() const {
  if (num_agents_ <= kMaxAgents) return;
  throw LaunchFault{unsupported(fmt::format(
      "kernel {}: the strict mode follows at most {} warps (each twice, and two or four "
      "times more where threads of it have bulk operations), warp groups and barriers of "
      "a cluster",
      cluster_.launch.program->name, kMaxAgents))};
}

bool Checker::all_lanes(const Warp& warp, uint32_t lanes) const {
  return (warp.live & ~lanes) == 0;
}

void Checker::note_time(uint32_t time) {
  last_time_ = std::max(last_time_, time);
  if (time < kMaxTime) return;
  throw LaunchFault{unsupported(
      fmt::format("kernel {}: the strict mode follows at most {} synchronisations of a warp, or "
                  "phases of a barrier, of a cluster",
                  cluster_.launch.program->name, kMaxTime))};
}

void Checker::release(Warp& warp, uint32_t lanes, SyncClock& into) {
  note_time(time_of(warp) + 1);
  knowledge(warp).release(lanes, all_lanes(warp, lanes), into);
}

void Checker::acquire(Warp& warp, uint32_t lanes, const SyncClock& from) {
  knowledge(warp).acquire(lanes, all_lanes(warp, lanes), from);
}

void Checker::warp_sync(Warp& warp, uint32_t lanes) {
  note_time(time_of(warp) + 1);
  knowledge(warp).synchronise(lanes, all_lanes(warp, lanes));
}

void Checker::fence_proxy_async(Warp& warp, uint32_t lanes) {
  knowledge(warp).fence_proxy(lanes, all_lanes(warp, lanes));
  fence_mbarrier_init(warp, lanes);
}

void Checker::fence_mbarrier_init(Warp& warp, uint32_t lanes) {
  release(warp, lanes, init_fences_[warp.agent]);
  for (auto& [key, barrier] : *cluster_.mbarriers) {
    if (barrier->init_thread / kLanes == warp.agent &&
        ((lanes >> barrier->init_thread % kLanes) & 1) != 0) {
      barrier->fenced = true;
    }
  }
}

void Checker::fence_device(Warp& warp, uint32_t lanes) { global_->fence(*this, warp, lanes); }

void Checker::acquire_agent(Warp& warp, uint32_t lanes, uint32_t agent, uint32_t floor,
                            uint32_t by_lane) {
  knowledge(warp).acquire_agent(lanes, all_lanes(warp, lanes), agent, floor, by_lane);
}

void Checker::refresh_limits(const Warp& warp) {
  const Knowledge& k = knowledge(warp);
  if (limits_of_ == warp.agent && limits_version_ == k.version() && limits_.size() >= num_agents_) {
    return;
  }
  limits_of_ = warp.agent;
  limits_version_ = k.version();
  limits_.resize(num_agents_);
  async_limits_.resize(num_agents_);
  for (uint32_t a = 0; a < num_agents_; ++a) {
    const uint32_t seen = k.floor_of(a);
    const uint32_t async = a < first_wgmma_ ? std::min(seen, k.proxied_floor_of(a)) : seen;
    limits_[a] = stamp_limit(std::max(base_, seen));
    async_limits_[a] = stamp_limit(std::max(base_, async));
  }
}

// Initialisation and invalidation write the words of a barrier; its other uses read them.
void Checker::write_mbarrier(Warp& warp, const Op& op, uint32_t lane, const Mbarrier& barrier) {
  refresh_limits(warp);
  const uint32_t index = cluster_.launch.program->index_of(op);
  const Who who = {warp,
                   op,
                   knowledge(warp),
                   lane,
                   make_stamp(knowledge(warp).time(), 0, warp.agent, lane, index),
                   false,
                   false};
  write_words(who, barrier.cta->rank, barrier.address / kWordBytes, 2, kAllBytes);
}

// A barrier takes the agent of the earlier one at the same address. So a thread that waits for the
// new one is ordered after its initialisation, and after the end of the earlier one.
Checker::Retired Checker::agent_of_barrier(uint64_t place) {
  auto found = retired_.find(place);
  if (found == retired_.end() && num_agents_ < kMaxAgents) return {add_agent(), base_};
  // NOTE: if there are no more agents, it takes that of another place. This may miss a wait for
  // operations there.
  if (found == retired_.end()) found = retired_.begin();
  if (found == retired_.end()) return {add_agent(), base_};
  const Retired retired = found->second;
  retired_.erase(found);
  return retired;
}

void Checker::init_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  const uint32_t rank = barrier.cta->rank;
  const Retired agent = agent_of_barrier(uint64_t{rank} << 32 | barrier.address);
  barrier.agent = agent.agent;
  barrier.first_time = agent.time;
  write_mbarrier(warp, op, lane, barrier);
  set_undefined(rank, barrier.address, kMbarrierBytes, false);
  shadows_[rank].note_barrier(barrier.address / kWordBytes);
}

void Checker::use_mbarrier(Warp& warp, const Op& op, uint32_t lanes, Mbarrier& barrier) {
  refresh_limits(warp);
  const uint32_t index = cluster_.launch.program->index_of(op);
  const uint32_t rank = barrier.cta->rank;
  const uint32_t word = barrier.address / kWordBytes;
  uint32_t by = 31 - static_cast<uint32_t>(std::countl_zero(lanes));
  const Stamp last = shadows_[rank].last_read(warp.agent, word);
  const bool others = last >= limits_[warp.agent] && stamp_lane(last) != by;
  if (others || ((lanes & (lanes - 1)) != 0 && lanes == warp.live)) by = kWholeWarp;
  const Stamp stamp = make_stamp(knowledge(warp).time(), 0, warp.agent, by, index) | kStampStrong;
  check_block_use(warp, op, rank);
  const Stamp writer = shadows_[rank].writers()[word];
  for (uint32_t m = lanes; m != 0 && writer >= limits_[stamp_agent(writer)]; m &= m - 1) {
    const Who one = {warp, op, knowledge(warp), lowest_bit(m), stamp, false, true};
    compare(one, rank, word, writer, true, kAllBytes);
  }
  const Who who = {warp, op, knowledge(warp), lowest_bit(lanes), stamp, false, true};
  read_words(who, rank, word, 2, kAllBytes);
  if (rank == warp.cta->rank) return;
  Seen own;
  own.floor = by == kWholeWarp ? stamp_time(stamp) + 1 : 0;
  own.last = by == kWholeWarp ? 0 : stamp_time(stamp);
  own.lanes = by == kWholeWarp ? 0 : 1u << by;
  barrier.made[warp.agent].join(own);
}

void Checker::use_mbarrier_async(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  use_mbarrier(warp, op, 1u << lane, barrier);
  if (barrier.fenced) return;
  report(ReportKind::kProxyFence, warp, op,
         fmt::format("mbarrier {:#x} is used by an asynchronous operation, but its initialisation "
                     "at PTX line {} was not followed by fence.mbarrier_init or "
                     "fence.proxy.async",
                     barrier.address, cluster_.launch.program->instruction(*barrier.init).line),
         barrier.init);
}

void Checker::issued_for(Warp& warp, uint32_t lanes, Mbarrier& barrier) {
  release(warp, lanes, barrier.arriving);
}

void Checker::inval_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  write_mbarrier(warp, op, lane, barrier);
  const uint64_t place = uint64_t{barrier.cta->rank} << 32 | barrier.address;
  retired_[place] = {barrier.agent, time_of(barrier) + 1};
}

uint32_t Checker::time_of(const Mbarrier& barrier) const {
  return barrier.first_time + barrier.phase;
}

// Reports a write to a barrier's memory by anything but the barrier's own instructions.
void Checker::check_barriers(Warp& warp, const Op& op, uint32_t rank, uint32_t word,
                             uint32_t count) {
  const uint32_t end = (word + count) * kWordBytes;
  for (uint32_t at = word * kWordBytes / kMbarrierBytes * kMbarrierBytes; at < end;
       at += kMbarrierBytes) {
    const Mbarrier* const barrier = cluster_.mbarriers->find(rank, at);
    if (barrier == nullptr) continue;
    report(ReportKind::kSynchronise, warp, op,
           fmt::format("writes shared memory at {:#x}, where there is an mbarrier that was "
                       "initialised at PTX line {} and not invalidated since",
                       at, cluster_.launch.program->instruction(*barrier->init).line),
           barrier->init);
  }
}

// A thread that sees the phase complete sees its asynchronous operations.
void Checker::phase_completed(Mbarrier& barrier) {
  Seen seen;
  seen.floor = time_of(barrier);
  barrier.completed.seen[barrier.agent].join(seen);
  note_time(seen.floor);
  barrier.made_before.join(barrier.made);
  barrier.made.clear();
}

void Checker::saw_phase(const Warp& warp, const Mbarrier& barrier) {
  if (barrier.cta == warp.cta) block_ends_[warp.cta->rank].made.join(barrier.made_before);
}

std::string Checker::describe(Stamp stamp, bool writes) const {
  const uint32_t agent = stamp_agent(stamp);
  const KernelProgram& program = *cluster_.launch.program;
  std::string who;
  if (agent < 2 * num_warps_) {
    const uint32_t warp = agent % num_warps_;
    const uint32_t per_block = cluster_.launch.num_warps();
    who = fmt::format("warp {}", warp % per_block);
    if (cluster_.launch.cluster_size() > 1) {
      who += fmt::format(" of block {} of the cluster", warp / per_block);
    }
    if (stamp_lane(stamp) != kWholeWarp) who += fmt::format(", lane {},", stamp_lane(stamp));
    if (agent >= num_warps_) who += " asynchronously";
  } else {
    who = "an asynchronous operation";
  }
  who += writes ? " wrote" : " read";
  const uint32_t op = stamp_op(stamp);
  if (op < program.ops.size()) {
    who += " at " + describe_line(program.instruction(program.ops[op]));
  }
  return who;
}

// Operations of a warp group take effect in order.
bool Checker::is_in_order(Stamp stamp) const {
  return stamp_agent(stamp) >= first_wgmma_ && stamp_agent(stamp) < first_other_;
}

}  // namespace lssar::vdev
