// Compares accesses to memory with earlier ones.
#include "virtual/check/checker_access.h"

#include <algorithm>

#include <fmt/format.h>

#include "virtual/check/global_shadow.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {}

LanePlace place_of(const Warp& warp, StateSpace space, uint64_t address) {
  if (space == StateSpace::kGeneric) {
    const uint64_t window = address >> kWindowShift << kWindowShift;
    space = window == 0               ? StateSpace::kGlobal
            : window == kSharedWindow ? StateSpace::kShared
            : window == kLocalWindow  ? StateSpace::kLocal
                                      : StateSpace::kParam;
    address -= window;
  }
  if (space != StateSpace::kShared) return {space, false, 0, address};
  const auto rank = static_cast<uint32_t>(address >> kRankShift);
  return {space, rank != warp.cta->rank, rank, address & ((1u << kRankShift) - 1)};
}

bool LaneAccess::touched(uint32_t lane, const LanePlace& word) const {
  const uint32_t lanes = lane == kWholeWarp ? done : done & 1u << lane;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const LanePlace place = place_of(warp, space, addresses[lowest_bit(m)]);
    if (place.space != word.space || place.rank != word.rank) continue;
    if (place.address < word.address + kWordBytes && word.address < place.address + bytes) {
      return true;
    }
  }
  return false;
}

// If lanes write one word by one instruction, any of them may win; that is no race.
bool Checker::is_same_store(const Who& who, uint32_t rank, uint32_t word, Stamp earlier) {
  if (who.access == nullptr || stamp_time(who.stamp) != stamp_time(earlier) ||
      stamp_op(who.stamp) != stamp_op(earlier)) {
    return false;
  }
  return who.access->touched(stamp_lane(earlier),
                             {StateSpace::kShared, false, rank, uint64_t{word} * kWordBytes});
}

// stmatrix over rows that ldmatrix of the same warp has read: every GPU does them in order.
bool Checker::is_row_rewrite(const Who& who, Stamp earlier, bool earlier_writes) const {
  const LaunchContext& launch = cluster_.launch;
  if (launch.letter || earlier_writes || stamp_agent(earlier) != who.warp.agent) return false;
  const KernelProgram& program = *launch.program;
  return who.access != nullptr && who.access->facts.whole_warp &&
         stamp_op(earlier) < program.ops.size() && program.facts[stamp_op(earlier)].whole_warp;
}

// Compares an earlier access with this one. No report if this one has seen it, through the right
// proxy.
void Checker::compare(const Who& who, uint32_t rank, uint32_t word, Stamp stamp, bool stamp_writes,
                      uint32_t bytes) {
  const uint32_t agent = stamp_agent(stamp);
  const uint32_t time = stamp_time(stamp);
  const uint32_t lane = stamp_lane(stamp);
  if (time < base_ || (stamp_bytes(stamp) & bytes) == 0) return;
  if (who.strong && (stamp & kStampStrong) != 0) return;
  if (agent == stamp_agent(who.stamp) &&
      (is_in_order(stamp) || (stamp_writes && is_same_store(who, rank, word, stamp)))) {
    return;
  }
  if (is_row_rewrite(who, stamp, stamp_writes)) return;
  const bool seen = who.knowledge.covers(who.lanes(), agent, time, lane);
  const bool generic = agent < first_wgmma_;
  if (seen && (!who.async || !generic || who.knowledge.proxied(who.lanes(), agent, time, lane))) {
    return;
  }
  const Op* other = nullptr;
  const KernelProgram& program = *cluster_.launch.program;
  if (stamp_op(stamp) < program.ops.size()) other = &program.ops[stamp_op(stamp)];
  std::string what;
  if (who.lane != kWholeWarp) what = fmt::format("lane {} ", who.lane);
  what += fmt::format("accesses shared address {:#x}", word * kWordBytes);
  if (cluster_.launch.cluster_size() > 1) what += fmt::format(" of block {} of the cluster", rank);
  what += ", which " + describe(stamp, stamp_writes);
  what += seen ? ": visible to it, but not to the async proxy" : ": nothing orders the two";
  report(seen ? ReportKind::kProxyFence : ReportKind::kRace, who.warp, who.op, what, other);
}

void Checker::read_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count,
                         uint32_t bytes) {
  SharedShadow& shadow = shadows_[rank];
  const Stamp* const limits = who.async ? async_limits_.data() : limits_.data();
  const Stamp* writers = shadow.writers() + word;
  const Stamp mine = who.stamp | Stamp{bytes} << kStampBytesShift;
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
    // wgmmas' quarters are not issued in the order of their times.
    readers[i] = who.async ? std::max(readers[i], mine) : mine;
  }
}

void Checker::write_words(const Who& who, uint32_t rank, uint32_t word, uint32_t count,
                          uint32_t bytes) {
  constexpr uint32_t kChunkWords = SharedShadow::kChunkWords;
  SharedShadow& shadow = shadows_[rank];
  const Stamp* const limits = who.async ? async_limits_.data() : limits_.data();
  Stamp* writers = shadow.writers() + word;
  const Stamp mine = who.stamp | Stamp{bytes} << kStampBytesShift;
  Stamp seen = 0;
  for (uint32_t i = 0; i < count;) {
    if ((word + i) % kChunkWords == 0 && count - i >= kChunkWords) {
      const Stamp all = shadow.known_writer((word + i) / kChunkWords);
      if (all != 0 && all < limits[stamp_agent(all)]) {
        std::fill_n(writers + i, kChunkWords, mine);
        i += kChunkWords;
        continue;
      }
    }
    const Stamp w = writers[i];
    if (w != seen) {
      if (w < limits[stamp_agent(w)]) {
        seen = w;
      } else {
        compare(who, rank, word + i, w, true, bytes);
      }
    }
    writers[i++] = mine;
  }
  shadow.note_write(word, count);
  for (const uint32_t agent : shadow.active()) {
    shadow.for_reads_since(agent, word, count, limits[agent], [&](uint32_t at, Stamp stamp) {
      compare(who, rank, at, stamp, false, bytes);
    });
  }
}

Checker::Who Checker::who_issued(const AsyncIssue& issue) {
  refresh_limits(*issue.warp);
  note_time(issue.time);
  const uint32_t op = cluster_.launch.program->index_of(*issue.op);
  const Stamp stamp = make_stamp(issue.time, 0, issue.agent, issue.stamp_lane(), op);
  return {*issue.warp,
          *issue.op,
          knowledge(*issue.warp),
          issue.lane,
          issue.strong ? stamp | kStampStrong : stamp,
          !issue.generic,
          issue.strong,
          nullptr,
          issue.together};
}

void Checker::async_shared(const AsyncIssue& issue, uint32_t rank, uint32_t address, uint32_t bytes,
                           bool writes) {
  if (bytes == 0) return;
  const Who who = who_issued(issue);
  check_block_use(*issue.warp, *issue.op, rank);
  const uint32_t first = address / kWordBytes;
  const uint32_t last = (address + bytes + kWordBytes - 1) / kWordBytes;
  if (writes) {
    if (shadows_[rank].may_hold_barrier(first, last - first)) {
      check_barriers(*issue.warp, *issue.op, rank, first, last - first);
    }
    write_words(who, rank, first, last - first, kAllBytes);
  } else {
    read_words(who, rank, first, last - first, kAllBytes);
  }
}

void Checker::async_global(const AsyncIssue& issue, uint64_t address, uint32_t bytes, bool writes) {
  note_time(issue.time);
  const uint32_t op = cluster_.launch.program->index_of(*issue.op);
  GlobalAccess access = {issue.warp,
                         issue.op,
                         &knowledge(*issue.warp),
                         issue.lane,
                         make_stamp(issue.time, 0, issue.agent, issue.stamp_lane(), op),
                         writes,
                         issue.strong,
                         true};
  if (issue.strong) access.stamp |= kStampStrong;
  access.together = issue.together;
  global_->access(*this, access, address, bytes);
  global_->release_page();
}

Stamp Checker::stamp_of_lane(const LaneAccess& access, uint32_t lane) {
  const uint32_t by = access.facts.whole_warp ? kWholeWarp : lane;
  Stamp stamp = access.stamp | static_cast<Stamp>(by) << kStampLaneShift;
  if (access.copies) {
    const uint32_t time = base_ + access.warp.async.commits[lane];
    note_time(time);
    stamp |= stamp_limit(time);
  }
  return stamp;
}

// An access to the shared memory of block `rank`, within its bounds and aligned.
void Checker::shared_access(Warp& warp, const Op& op, LaneAccess& access, uint32_t rank,
                            uint32_t lane, uint32_t address) {
  const uint32_t by = access.facts.whole_warp ? kWholeWarp : lane;
  const Stamp stamp = stamp_of_lane(access, lane);
  const Who who = {warp, op, access.knowledge, by, stamp, false, access.facts.strong, &access};
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
    if (shadows_[rank].may_hold_barrier(word, count)) check_barriers(warp, op, rank, word, count);
    write_words(who, rank, word, count, mask);
    std::memset(undefined, access.to_shared_copy ? kAllBytes : 0, count);
  }
}

void Checker::global_access(Warp& warp, const Op& op, const LaneAccess& access, uint32_t lane,
                            uint64_t address) {
  // An address that is out of bounds is skipped; it faults afterwards.
  const uint64_t offset = address - warp.range_begin;
  if ((offset >= warp.range_bytes || warp.range_bytes - offset < access.bytes) &&
      !find_global_range(warp, address, access.bytes)) {
    return;
  }
  const OpFacts& facts = access.facts;
  const bool writes = !access.copies && facts.access != MemoryUse::kRead;
  GlobalAccess global = {
      &warp,        &op,  &access.knowledge, lane, stamp_of_lane(access, lane), writes,
      facts.strong, false};
  global.reads = access.copies || facts.access != MemoryUse::kWrite;
  global.lanes = &access;
  global_->access(*this, global, address, access.bytes);
  if (facts.strong) global_->synchronise(*this, global, facts, address);
}

void Checker::shared_lane(Warp& warp, const Op& op, LaneAccess& access, uint32_t lane,
                          const LanePlace& place) {
  const uint32_t rank = place.rank;
  if (rank >= shadows_.size() || place.address + access.bytes > warp.shared_bytes) return;
  if ((place.address & (std::min(access.bytes, kWordBytes) - 1)) != 0) return;
  if (place.mapped) check_block_use(warp, op, rank);
  shared_access(warp, op, access, rank, lane, static_cast<uint32_t>(place.address));
  const OpFacts& facts = access.facts;
  if (!facts.strong) return;
  GlobalAccess strong = {&warp, &op,          &access.knowledge,
                         lane,  access.stamp, facts.access != MemoryUse::kRead,
                         true,  false};
  strong.reads = facts.access != MemoryUse::kWrite;
  const uint64_t block = cluster_index_ * shadows_.size() + rank;
  global_->synchronise(*this, strong, facts, kSharedWindow | block << kRankShift | place.address);
}

void Checker::access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                     uint32_t bytes) {
  access(warp, op, cluster_.launch.program->facts_of(op), space, addresses, bytes);
}

void Checker::access(Warp& warp, const Op& op, const OpFacts& facts, StateSpace space,
                     const uint64_t* addresses, uint32_t bytes) {
  const KernelProgram& program = *cluster_.launch.program;
  note_access_done();  // for instructions that do not call it
  if (facts.access == MemoryUse::kNone) return;
  refresh_limits(warp);
  const bool copies = facts.access == MemoryUse::kCopyAsync;
  const bool to_shared_copy = copies && space == StateSpace::kShared;
  const Knowledge& k = knowledge(warp);
  Stamp stamp = make_stamp(copies ? 0 : k.time(), 0, copies ? num_warps_ + warp.agent : warp.agent,
                           0, program.index_of(op));
  if (facts.strong) stamp |= kStampStrong;
  LaneAccess access = {warp, facts, k, space, addresses, stamp, bytes, copies, to_shared_copy};
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    const LanePlace place = place_of(warp, space, addresses[lane]);
    if (place.space == StateSpace::kShared) {
      shared_lane(warp, op, access, lane, place);
    } else if (place.space == StateSpace::kGlobal) {
      global_access(warp, op, access, lane, place.address);
    }
    access.done |= 1u << lane;
  }
  global_->release_page();
  if (access.any_undefined) load_taint(warp, op, space, addresses, bytes);
  if (!copies && facts.access != MemoryUse::kRead && !taints_[warp.agent].empty()) {
    store_taint(warp, op, space, addresses, bytes);
  }
}

void check_access(Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes) {
  warp.cta->cluster->checker->access(warp, op, space, addresses, bytes);
}

void Checker::note_access_done() { global_->take_found(*this); }

void note_access_done(Warp& warp) { warp.cta->cluster->checker->note_access_done(); }

void check_delivered(Warp& warp, const uint8_t* target, uint32_t bytes) {
  Checker& checker = *warp.cta->cluster->checker;
  for (const Cta& cta : warp.cta->cluster->ctas) {
    if (target < cta.shared || target >= cta.shared + warp.shared_bytes) continue;
    checker.set_undefined(cta.rank, static_cast<uint32_t>(target - cta.shared), bytes, false);
  }
}

void check_warp_sync(Warp& warp) { warp.cta->cluster->checker->warp_sync(warp, warp.mask); }

}  // namespace lssar::vdev
