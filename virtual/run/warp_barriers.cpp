// Barriers of a block, and lanes that exit.
#include <algorithm>

#include <fmt/format.h>

#include "virtual/async/wgmma_unit.h"
#include "virtual/run/block_runner.h"
#include "virtual/state/fault.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/splits.h"

namespace lssar::vdev {
void BlockRunner::exit_lanes(Warp& warp, Split& split, const BasicBlock& block, uint32_t mask) {
  split.mask &= ~mask;
  split.block = block.next;
  if (split.mask == 0) remove_split(warp, split);
  if (mask == 0) return;
  warp.live &= ~mask;
  cluster_.note_event();
  settle_waits(warp);
  Cta& cta = *warp.cta;
  for (uint32_t id = 0; id < kNumBarriers; ++id) {
    if (cta.barriers[id].expected != 0) try_complete(cta, id);
  }
  cluster_barrier_->try_complete();
  if (warp.live == 0)
    warp_ended(warp, cluster_.launch.program->ops[block.first_op + block.num_ops]);
}

void BlockRunner::check_count(Warp& warp, const Op& op, uint32_t id, uint32_t count) {
  BarrierState& barrier = warp.cta->barriers[id];
  const bool whole = count == 0;
  if (whole) count = cluster_.launch.num_warps() * kLanes;
  if (count % kLanes != 0) raise_fault(warp, op, "a barrier's thread count is a multiple of 32");
  if (barrier.expected != 0 && barrier.expected != count) {
    raise_fault(warp, op,
                fmt::format("barrier {} is waited for with {} and with {} threads", id,
                            barrier.expected, count)
                    .c_str());
  }
  barrier.expected = count;
  barrier.whole_block |= whole;
}

// bar.sync, bar.red: the lanes wait. bar.arrive: they are counted and go on.
void BlockRunner::reach_barrier(Warp& warp, Split& split, const BasicBlock& block, const Op& op) {
  const uint32_t mask = guarded_mask(warp, op, split.mask);
  if (mask == 0) {
    split.block = block.next;
    return;
  }
  const uint32_t lane = lowest_bit(mask);
  const uint32_t id = lane_value(warp, op.a, lane);
  if (id >= kNumBarriers) raise_fault(warp, op, "a barrier's number is 0 to 15");
  const uint32_t count = op.b == kNoRegister ? 0 : lane_value(warp, op.b, lane);
  if (op.b != kNoRegister && count == 0) raise_fault(warp, op, "a barrier of 0 threads");
  check_count(warp, op, id, count);

  const auto kind = static_cast<BarrierKind>(op.space);
  if (cluster_.launch.strict && mask != split.mask && is_aligned_barrier(op)) {
    checker_->report(ReportKind::kSynchronise, warp, op,
                     fmt::format("only lanes {:#010x} of the warp execute the barrier, for others "
                                 "its guard is false",
                                 mask));
  }
  if (mask != split.mask) add_split(warp, block.next, split.mask & ~mask);
  split.mask = mask;
  split.block = block.next;
  cluster_.note_event();
  BarrierState& barrier = warp.cta->barriers[id];
  if (Checker* c = cluster_.checker) c->release(warp, mask, barrier.clock);
  if (cluster_.recorder != nullptr) cluster_.recorder->barrier_arrived(warp, op, id, mask);
  if (kind == BarrierKind::kArrive) {
    arrive(warp, op, id, mask);
    return;
  }
  if (kind == BarrierKind::kReduce) {
    const uint32_t p = mask_at(warp, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0);
    barrier.ones += static_cast<uint32_t>(__builtin_popcount(p & mask));
    barrier.total += static_cast<uint32_t>(__builtin_popcount(mask));
  }
  split.wait = WaitKind::kBarrier;
  split.barrier = static_cast<uint8_t>(id);
  split.waits_at = &op;
  waiting_[warp.agent][id] |= mask;
  if (cluster_.launch.strict) check_same_barrier(warp, id);
  try_complete(*warp.cta, id);
}

void BlockRunner::arrive(Warp& warp, const Op& op, uint32_t id, uint32_t mask) {
  uint32_t& lanes = arriving_[warp.agent][id];
  if (lanes & mask) raise_fault(warp, op, "a lane arrives twice before its warp did once");
  lanes |= mask;
  if ((warp.live & ~lanes) != 0) return;
  lanes = 0;
  warp.cta->barriers[id].arrived += kLanes;
  try_complete(*warp.cta, id);
}

// A warp has come once all its remaining lanes have. For bar.sync without a thread count warps that
// ended count as well.
void BlockRunner::try_complete(Cta& cta, uint32_t id) {
  const BarrierState& barrier = cta.barriers[id];
  const Warp* warps = first_warp(cta);
  uint32_t come = barrier.arrived;
  for (uint32_t i = 0; i < cluster_.launch.num_warps(); ++i) {
    const uint32_t live = warps[i].live;
    const bool here = live != 0 && (live & ~waiting_[warps[i].agent][id]) == 0;
    if (here || (live == 0 && barrier.whole_block)) come += kLanes;
  }
  if (come >= barrier.expected) release(cta, id);
}

void BlockRunner::release(Cta& cta, uint32_t id) {
  const BarrierState barrier = std::move(cta.barriers[id]);
  cta.barriers[id] = {};
  cluster_.note_event();
  if (cluster_.recorder != nullptr) cluster_.recorder->barrier_completed(cta.rank, id);
  for (uint32_t i = 0; i < cluster_.launch.num_warps(); ++i) {
    Warp& warp = first_warp(cta)[i];
    waiting_[warp.agent][id] = 0;
    for (uint32_t s = 0; s < warp.num_splits && warp.live != 0; ++s) {
      Split& split = warp.splits[s];
      if (split.wait != WaitKind::kBarrier || split.barrier != id) continue;
      split.wait = WaitKind::kNone;
      if (Checker* c = cluster_.checker) c->acquire(warp, split.mask, barrier.clock);
      const Op& op = *split.waits_at;
      if (cluster_.recorder != nullptr) cluster_.recorder->barrier_passed(warp, op, id, split.mask);
      if (static_cast<BarrierKind>(op.space) != BarrierKind::kReduce) continue;
      const auto how = static_cast<Combine>(op.flags & kOpFlagsMask);
      if (how == Combine::kPopc) {
        auto* d = reinterpret_cast<uint32_t*>(warp.registers + op.dst);
        for (uint32_t m = split.mask; m != 0; m &= m - 1) d[lowest_bit(m)] = barrier.ones;
        continue;
      }
      const bool result = how == Combine::kAnd ? barrier.ones == barrier.total : barrier.ones != 0;
      auto& d = *reinterpret_cast<uint32_t*>(warp.registers + op.dst);
      d = (d & ~split.mask) | (result ? split.mask : 0);
    }
  }
}

bool BlockRunner::is_aligned_barrier(const Op& op) const {
  const std::string_view opcode = cluster_.launch.program->instruction(op).opcode;
  return opcode.starts_with("bar.") || opcode.find(".aligned") != std::string_view::npos;
}

// Checks that all lanes of a warp come to the same bar instruction (.aligned).
void BlockRunner::check_same_barrier(Warp& warp, uint32_t id) {
  const Op* first = nullptr;
  for (uint32_t s = 0; s < warp.num_splits; ++s) {
    const Split& split = warp.splits[s];
    if (split.wait != WaitKind::kBarrier || split.barrier != id) continue;
    if (first == nullptr) first = split.waits_at;
    if (split.waits_at == first) continue;
    if (!is_aligned_barrier(*first)) continue;
    checker_->report(ReportKind::kSynchronise, warp, *split.waits_at,
                     fmt::format("lanes {:#010x} of a warp come to barrier {} here, others at "
                                 "another instruction",
                                 split.mask, id),
                     first);
  }
}

// A block that has ended frees its shared memory.
void BlockRunner::warp_ended(Warp& warp, const Op& op) {
  wgmma_->warp_ended(warp, op);
  const Cta& cta = *warp.cta;
  const Warp* const first = first_warp(cta);
  const bool ended = std::all_of(first, first + cluster_.launch.num_warps(),
                                 [](const Warp& other) { return other.live == 0; });
  Checker* c = cluster_.checker;
  if (c == nullptr) return;
  c->warp_ended(warp, op, ended);
  if (!ended) return;
  for (const bool reads : {false, true}) {
    const AsyncOperation* operation = async_->using_shared_of(cta.rank, reads);
    if (operation == nullptr) continue;
    c->report(ReportKind::kAsync, warp, op,
              fmt::format("the block ends while an asynchronous operation, {}, is still to {} its "
                          "shared memory",
                          describe_line(cluster_.launch.program->instruction(*operation->op)),
                          reads ? "read" : "write"),
              operation->op);
  }
}

}  // namespace lssar::vdev
