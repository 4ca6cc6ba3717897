#include "runtime/virtual/checker.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "runtime/virtual/block_runner.h"
#include "runtime/virtual/fault.h"
#include "runtime/virtual/generic_operands.h"
#include "runtime/virtual/global_shadow.h"

namespace lssar::vdev {

// The access being checked.
struct Checker::Who {
  Warp& warp;
  const Op& op;
  const Knowledge& knowledge;
  uint32_t lane;  // or kWholeWarp
  Stamp stamp;    // without bytes
  bool async;     // by the async proxy
  bool strong;
};

namespace {
constexpr uint32_t kWordBytes = 4;
constexpr uint32_t kWarpsPerGroup = 4;
constexpr uint32_t kTimeReserve = 1u << 20;  // of one cluster, at the least
}  // namespace

Checker::Checker(BlockRunner& runner)
    : runner_(runner), global_(std::make_unique<GlobalShadow>()) {}
Checker::~Checker() = default;

void Checker::begin_cluster(uint64_t cluster) {
  const LaunchContext& launch = runner_.launch();
  cluster_ = cluster;
  const auto& warps = runner_.warps();
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
    taints_[i].clear();
  }
  init_fences_.assign(num_warps_, {});
  shadows_.resize(launch.cluster_size());
  for (SharedShadow& s : shadows_) s.reset(launch.shared_bytes, forget);
  block_ends_.assign(launch.cluster_size(), {});
  register_uses_.assign(num_warps_, {});
  limits_of_ = ~0u;
  seen_reports_.clear();
  reports_.clear();
  global_->begin_cluster(launch, cluster);
}

uint32_t Checker::add_agent() {
  ++num_agents_;
  check_agents();
  return num_agents_ - 1;
}

void Checker::check_agents() const {
  if (num_agents_ <= kMaxAgents) return;
  throw LaunchFault{unsupported(
      fmt::format("kernel {}: the strict mode follows at most {} warps (each twice), warp groups, "
                  "barriers and threads with bulk operations (each twice) of a cluster",
                  runner_.launch().program->name, kMaxAgents))};
}

bool Checker::all_lanes(const Warp& warp, uint32_t lanes) const {
  return (warp.live & ~lanes) == 0;
}

void Checker::release(Warp& warp, uint32_t lanes, SyncClock& into) {
  knowledge(warp).release(lanes, all_lanes(warp, lanes), into);
}

void Checker::acquire(Warp& warp, uint32_t lanes, const SyncClock& from) {
  knowledge(warp).acquire(lanes, all_lanes(warp, lanes), from);
}

void Checker::warp_sync(Warp& warp, uint32_t lanes) {
  knowledge(warp).synchronise(lanes, all_lanes(warp, lanes));
}

void Checker::fence_proxy_async(Warp& warp, uint32_t lanes) {
  knowledge(warp).fence_proxy(lanes, all_lanes(warp, lanes));
  fence_mbarrier_init(warp, lanes);
}

void Checker::fence_mbarrier_init(Warp& warp, uint32_t lanes) {
  release(warp, lanes, init_fences_[warp.agent]);
  for (auto& [key, barrier] : runner_.mbarriers()) {
    if (barrier->init_thread / kLanes == warp.agent &&
        ((lanes >> barrier->init_thread % kLanes) & 1) != 0) {
      barrier->fenced = true;
    }
  }
}

void Checker::fence_device(Warp& warp, uint32_t lanes) { global_->fence(*this, warp, lanes); }

void Checker::acquire_agent(Warp& warp, uint32_t lanes, uint32_t agent, uint32_t floor) {
  knowledge(warp).acquire_agent(lanes, all_lanes(warp, lanes), agent, floor);
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

// The words of a barrier are written by its initialisation and invalidation, read by its uses.
void Checker::write_mbarrier(Warp& warp, const Op& op, uint32_t lane, const Mbarrier& barrier) {
  refresh_limits(warp);
  const uint32_t index = runner_.launch().program->index_of(op);
  const Who who = {warp,
                   op,
                   knowledge(warp),
                   lane,
                   make_stamp(knowledge(warp).time(), 0, warp.agent, lane, index),
                   false,
                   false};
  write_words(who, barrier.cta->rank, barrier.address / kWordBytes, 2, kAllBytes);
}

void Checker::init_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  barrier.agent = add_agent();
  write_mbarrier(warp, op, lane, barrier);
  set_undefined(barrier.cta->rank, barrier.address, 8, false);
}

void Checker::use_mbarrier(Warp& warp, const Op& op, uint32_t lanes, Mbarrier& barrier) {
  refresh_limits(warp);
  const uint32_t index = runner_.launch().program->index_of(op);
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
}

void Checker::use_mbarrier_async(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  use_mbarrier(warp, op, 1u << lane, barrier);
  if (barrier.fenced) return;
  report(ReportKind::kProxyFence, warp, op,
         fmt::format("mbarrier {:#x} is used by an asynchronous operation, but its initialisation "
                     "at PTX line {} was not followed by fence.mbarrier_init or "
                     "fence.proxy.async",
                     barrier.address, runner_.launch().program->instruction(*barrier.init).line),
         barrier.init);
}

void Checker::inval_mbarrier(Warp& warp, const Op& op, uint32_t lane, Mbarrier& barrier) {
  write_mbarrier(warp, op, lane, barrier);
}

// The asynchronous operations of the phase are seen by whoever sees its completion.
void Checker::phase_completed(Mbarrier& barrier) {
  Seen seen;
  seen.floor = base_ + barrier.phase;
  barrier.completed.seen[barrier.agent].join(seen);
  last_time_ = std::max(last_time_, seen.floor);
}

std::string Checker::describe(Stamp stamp, bool writes) const {
  const uint32_t agent = stamp_agent(stamp);
  const KernelProgram& program = *runner_.launch().program;
  std::string who;
  if (agent < 2 * num_warps_) {
    const uint32_t warp = agent % num_warps_;
    const uint32_t per_block = runner_.launch().num_warps();
    who = fmt::format("warp {}", warp % per_block);
    if (runner_.launch().cluster_size() > 1) {
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
    const Instruction& in = program.instruction(program.ops[op]);
    who += fmt::format(" at PTX line {} '{}'", in.line, in.text.substr(0, 160));
  }
  return who;
}

// Operations of a warp group take effect in their order.
bool Checker::is_in_order(Stamp stamp) const {
  return stamp_agent(stamp) >= first_wgmma_ && stamp_agent(stamp) < first_other_;
}

// Of lanes that write one word by one instruction any may win.
bool Checker::is_same_store(const Who& who, uint32_t word, Stamp earlier) const {
  if (stamp_time(who.stamp) != stamp_time(earlier) || stamp_op(who.stamp) != stamp_op(earlier)) {
    return false;
  }
  return std::any_of(stored_.begin(), stored_.end(),
                     [&](const auto& s) { return word - s.first < s.second; });
}

// An earlier access against this one: no report where it is seen, and by the right proxy.
void Checker::compare(const Who& who, uint32_t rank, uint32_t word, Stamp stamp, bool stamp_writes,
                      uint32_t bytes) {
  const uint32_t agent = stamp_agent(stamp);
  const uint32_t time = stamp_time(stamp);
  const uint32_t lane = stamp_lane(stamp);
  if (time < base_ || (stamp_bytes(stamp) & bytes) == 0) return;
  if (who.strong && (stamp & kStampStrong) != 0) return;
  if (agent == stamp_agent(who.stamp) &&
      (is_in_order(stamp) || (stamp_writes && is_same_store(who, word, stamp)))) {
    return;
  }
  const bool seen = who.knowledge.covers(who.lane, agent, time, lane);
  const bool generic = agent < first_wgmma_;
  if (seen && (!who.async || !generic || who.knowledge.proxied(who.lane, agent, time, lane))) {
    return;
  }
  const Op* other = nullptr;
  const KernelProgram& program = *runner_.launch().program;
  if (stamp_op(stamp) < program.ops.size()) other = &program.ops[stamp_op(stamp)];
  std::string what;
  if (who.lane != kWholeWarp) what = fmt::format("lane {} ", who.lane);
  what += fmt::format("accesses shared address {:#x}", word * kWordBytes);
  if (runner_.launch().cluster_size() > 1) what += fmt::format(" of block {} of the cluster", rank);
  what += ", which " + describe(stamp, stamp_writes);
  what += seen ? ": visible to it, but not to the async proxy" : ": nothing orders the two";
  report(seen ? ReportKind::kProxyFence : ReportKind::kRace, who.warp, who.op, what, other);
}

void Checker::read_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count,
                         uint32_t bytes) {
  SharedShadow& shadow = shadows_[rank];
  const Stamp* const limits = who.async ? async_limits_.data() : limits_.data();
  const Stamp* writers = shadow.writers() + word;
  const Stamp mine = who.stamp | static_cast<Stamp>(bytes) << 32;
  Stamp* readers = shadow.note_reads(stamp_agent(mine), word, count, mine) + word;
  Stamp seen = 0;  // neighbours mostly have one writer
  for (uint32_t i = 0; i < count; ++i) {
    const Stamp w = writers[i];
    if (w != seen) {
      if (w < limits[stamp_agent(w)]) {
        seen = w;
      } else {
        compare(who, rank, word + i, w, true, bytes);
      }
    }
    // The quarters of a wgmma are not issued in the order of their times.
    readers[i] = who.async ? std::max(readers[i], mine) : mine;
  }
}

void Checker::write_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count,
                          uint32_t bytes) {
  SharedShadow& shadow = shadows_[rank];
  const Stamp* const limits = who.async ? async_limits_.data() : limits_.data();
  Stamp* writers = shadow.writers() + word;
  shadow.note_write();
  const Stamp mine = who.stamp | static_cast<Stamp>(bytes) << 32;
  Stamp seen = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Stamp w = writers[i];
    if (w != seen) {
      if (w < limits[stamp_agent(w)]) {
        seen = w;
      } else {
        compare(who, rank, word + i, w, true, bytes);
      }
    }
    writers[i] = mine;
  }
  for (const uint32_t agent : shadow.active()) {
    shadow.for_reads_since(agent, word, count, limits[agent], [&](uint32_t at, Stamp stamp) {
      compare(who, rank, at, stamp, false, bytes);
    });
  }
}

void Checker::async_shared(const AsyncIssue& issue, uint32_t rank, uint32_t address, uint32_t bytes,
                           bool writes) {
  if (bytes == 0) return;
  refresh_limits(*issue.warp);
  last_time_ = std::max(last_time_, issue.time);
  const uint32_t op = runner_.launch().program->index_of(*issue.op);
  const Stamp stamp = make_stamp(issue.time, 0, issue.agent, kWholeWarp, op);
  const Who who = {*issue.warp,
                   *issue.op,
                   knowledge(*issue.warp),
                   issue.lane,
                   issue.strong ? stamp | kStampStrong : stamp,
                   !issue.generic,
                   issue.strong};
  check_block_use(*issue.warp, *issue.op, rank);
  const uint32_t first = address / kWordBytes;
  const uint32_t last = (address + bytes + kWordBytes - 1) / kWordBytes;
  if (writes) {
    write_words(who, rank, first, last - first, kAllBytes);
  } else {
    read_words(who, rank, first, last - first, kAllBytes);
  }
}

void Checker::async_global(const AsyncIssue& issue, uint64_t address, uint32_t bytes, bool writes) {
  last_time_ = std::max(last_time_, issue.time);
  const uint32_t op = runner_.launch().program->index_of(*issue.op);
  GlobalAccess access = {issue.warp,
                         issue.op,
                         &knowledge(*issue.warp),
                         issue.lane,
                         make_stamp(issue.time, 0, issue.agent, kWholeWarp, op),
                         writes,
                         issue.strong,
                         true};
  if (issue.strong) access.stamp |= kStampStrong;
  global_->access(*this, access, address, bytes);
  global_->release_page();
}

// What is the same for all lanes of an access.
struct Checker::Access {
  const OpFacts& facts;
  const Knowledge& knowledge;
  Stamp stamp;  // without lane, and for cp.async without time
  uint32_t bytes;
  bool copies;                 // by cp.async
  bool to_shared_copy;         // its destination
  bool any_undefined = false;  // a shared word that was read
};

Stamp Checker::stamp_of_lane(const Warp& warp, const Access& access, uint32_t lane) {
  const uint32_t by = access.facts.whole_warp ? kWholeWarp : lane;
  Stamp stamp = access.stamp | static_cast<Stamp>(by) << kStampLaneShift;
  if (access.copies) {
    const uint32_t time = base_ + warp.async.commits[lane];
    last_time_ = std::max(last_time_, time);
    stamp |= stamp_limit(time);
  }
  return stamp;
}

// In the shared memory of block `rank`, within its bounds and aligned.
void Checker::shared_access(Warp& warp, const Op& op, Access& access, uint32_t rank, uint32_t lane,
                            uint32_t address) {
  const uint32_t by = access.facts.whole_warp ? kWholeWarp : lane;
  const Stamp stamp = stamp_of_lane(warp, access, lane);
  const Who who = {warp, op, access.knowledge, by, stamp, false, access.facts.strong};
  const uint32_t word = address / kWordBytes;
  const uint32_t bytes = access.bytes;
  const uint32_t count = bytes >= kWordBytes ? bytes / kWordBytes : 1;
  const uint32_t mask =
      bytes >= kWordBytes ? kAllBytes : ((1u << bytes) - 1) << (address % kWordBytes);
  uint8_t* const undefined = shadows_[rank].undefined() + word;
  if (access.facts.access != MemoryUse::kWrite && !access.to_shared_copy) {
    for (uint32_t i = 0; i < count; ++i) access.any_undefined |= undefined[i] != 0;
  }
  if (access.facts.access == MemoryUse::kRead) {
    read_words(who, rank, word, count, mask);
  } else {
    write_words(who, rank, word, count, mask);
    stored_.emplace_back(word, count);
    std::memset(undefined, access.to_shared_copy ? kAllBytes : 0, count);
  }
}

void Checker::global_access(Warp& warp, const Op& op, const Access& access, uint32_t lane,
                            uint64_t address) {
  // An address that is out of bounds is not looked at: its fault follows.
  const uint64_t offset = address - warp.range_begin;
  if ((offset >= warp.range_bytes || warp.range_bytes - offset < access.bytes) &&
      !find_global_range(warp, address, access.bytes)) {
    return;
  }
  const OpFacts& facts = access.facts;
  const bool writes = !access.copies && facts.access != MemoryUse::kRead;
  GlobalAccess global = {
      &warp,        &op,  &access.knowledge, lane, stamp_of_lane(warp, access, lane), writes,
      facts.strong, false};
  global.reads = access.copies || facts.access != MemoryUse::kWrite;
  global_->access(*this, global, address, access.bytes);
  if (facts.strong) global_->synchronise(*this, global, facts, address);
}

void Checker::access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                     uint32_t bytes) {
  const KernelProgram& program = *runner_.launch().program;
  const OpFacts& facts = program.facts_of(op);
  if (facts.access == MemoryUse::kNone) return;
  refresh_limits(warp);
  const bool copies = facts.access == MemoryUse::kCopyAsync;
  const bool to_shared_copy = copies && space == StateSpace::kShared;
  const Knowledge& k = knowledge(warp);
  Stamp stamp = make_stamp(copies ? 0 : k.time(), 0, copies ? num_warps_ + warp.agent : warp.agent,
                           0, program.index_of(op));
  if (facts.strong) stamp |= kStampStrong;
  Access access = {facts, k, stamp, bytes, copies, to_shared_copy};
  stored_.clear();
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    uint64_t address = addresses[lane];
    StateSpace where = space;
    if (space == StateSpace::kGeneric) {
      const uint64_t window = address >> kWindowShift << kWindowShift;
      where = window == 0               ? StateSpace::kGlobal
              : window == kSharedWindow ? StateSpace::kShared
              : window == kLocalWindow  ? StateSpace::kLocal
                                        : StateSpace::kParam;
      address -= window;
    }
    if (where == StateSpace::kShared) {
      const uint64_t owner = address >> kRankShift;
      const uint64_t rank = owner == 0 ? warp.cta->rank : owner - 1;
      const uint64_t offset = address & ((1u << kRankShift) - 1);
      if (rank >= shadows_.size() || offset + bytes > warp.shared_bytes) continue;
      if ((offset & (std::min(bytes, kWordBytes) - 1)) != 0) continue;
      if (owner != 0) check_block_use(warp, op, static_cast<uint32_t>(rank));
      shared_access(warp, op, access, static_cast<uint32_t>(rank), lane,
                    static_cast<uint32_t>(offset));
      if (facts.strong) {
        GlobalAccess strong = {&warp, &op,  &k, lane, stamp, facts.access != MemoryUse::kRead,
                               true,  false};
        strong.reads = facts.access != MemoryUse::kWrite;
        const uint64_t block = cluster_ * shadows_.size() + rank;
        global_->synchronise(*this, strong, facts, kSharedWindow | block << kRankShift | offset);
      }
    } else if (where == StateSpace::kGlobal) {
      global_access(warp, op, access, lane, address);
    }
  }
  global_->release_page();
  if (access.any_undefined) load_taint(warp, op, space, addresses, bytes);
  if (!copies && facts.access != MemoryUse::kRead && !taints_[warp.agent].empty()) {
    store_taint(warp, op, space, addresses, bytes);
  }
}

void check_access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes) {
  warp.cta->runner->checker()->access(warp, op, space, addresses, bytes);
}

void check_delivered(Warp& warp, const uint8_t* target, uint32_t bytes) {
  Checker& checker = *warp.cta->runner->checker();
  for (const Cta& cta : warp.cta->runner->ctas()) {
    if (target < cta.shared || target >= cta.shared + warp.shared_bytes) continue;
    checker.set_undefined(cta.rank, static_cast<uint32_t>(target - cta.shared), bytes, false);
  }
}

void check_warp_sync(Warp& warp) { warp.cta->runner->checker()->warp_sync(warp, warp.mask); }

}  // namespace lssar::vdev
