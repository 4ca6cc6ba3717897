// Which lanes of a warp run next: splits, branches, barriers. Everything about the order in which
// lanes and warps proceed is decided here and in BlockRunner::run_warps.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/virtual/block_runner.h"
#include "runtime/virtual/fault.h"

namespace lssar::vdev {
namespace {

uint32_t mask_at(const Warp& warp, uint32_t offset) {
  return *reinterpret_cast<const uint32_t*>(warp.registers + offset);
}

// The active lanes for which the op's guard holds.
uint32_t guarded_mask(const Warp& warp, const Op& op, uint32_t mask) {
  if (op.guard == kNoRegister) return mask;
  return mask & (mask_at(warp, op.guard) ^ (op.guard_negated ? kAllLanes : 0));
}

uint32_t lane_value(const Warp& warp, uint32_t offset, uint32_t lane) {
  return reinterpret_cast<const uint32_t*>(warp.registers + offset)[lane];
}

void add_split(Warp& warp, uint32_t block, uint32_t mask) {
  warp.splits[warp.num_splits++] = {block, 0, mask, 0, nullptr, 0, WaitKind::kNone};
}

void remove_split(Warp& warp, Split& split) {
  split = warp.splits[warp.num_splits - 1];
  --warp.num_splits;
}

uint32_t lowest_lane(uint32_t mask) { return static_cast<uint32_t>(__builtin_ctz(mask)); }

}  // namespace

// The runnable split at the lowest place, merged with others there; null if all wait.
Split* BlockRunner::pick(Warp& warp) {
  if (warp.num_splits == 1) {
    return warp.splits[0].wait == WaitKind::kNone ? &warp.splits[0] : nullptr;
  }
  Split* best = nullptr;
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    Split& s = warp.splits[i];
    if (s.wait != WaitKind::kNone) continue;
    if (best == nullptr || s.block < best->block || (s.block == best->block && s.op < best->op)) {
      best = &s;
    }
  }
  if (best == nullptr) return nullptr;
  for (uint32_t i = 0; i < warp.num_splits;) {
    Split& s = warp.splits[i];
    if (&s == best || s.wait != WaitKind::kNone || s.block != best->block || s.op != best->op) {
      ++i;
      continue;
    }
    best->mask |= s.mask;
    if (best == &warp.splits[warp.num_splits - 1]) best = &s;
    remove_split(warp, s);
  }
  return best;
}

void BlockRunner::run_warp(Warp& warp) {
  const KernelProgram& program = *launch_.program;
  while (Split* split = pick(warp)) {
    const BasicBlock& block = program.blocks[split->block];
    warp.mask = split->mask;
    if (split->op == 0 && split->mask == warp.live) {
      const Op* op = program.ops.data() + block.first_op;
      for (const Op* const end = op + block.num_ops; op != end; ++op) op->run(warp, *op);
      context_.instructions += block.num_instructions;
      count_run(block, 0, block.num_instructions, split->mask);
    } else {
      run_ops(warp, *split, block);
      if (split->wait != WaitKind::kNone) {
        settle_waits(warp);
        continue;
      }
    }
    if (context_.instructions > launch_.max_block_instructions) {
      throw LaunchFault{device_error(
          fmt::format("{}: the block executed more than {} warp instructions",
                      describe_place(context_, warp.index, program.ops[block.first_op]),
                      launch_.max_block_instructions))};
    }
    finish_block(warp, *split, block);
  }
}

// Some lanes only, or from the middle of the block.
void BlockRunner::run_ops(Warp& warp, Split& split, const BasicBlock& block) {
  const Op* ops = launch_.program->ops.data() + block.first_op;
  const bool full = split.mask == warp.live;
  const uint32_t begin = split.op;
  for (uint32_t i = begin; i < block.num_ops; ++i) {
    (full ? ops[i].run : ops[i].run_masked)(warp, ops[i]);
    if (warp.missing != 0) {
      context_.instructions += i - begin;
      count_run(block, begin, i, split.mask);
      suspend(warp, split, i);
      return;
    }
  }
  context_.instructions += block.num_instructions - begin;
  count_run(block, begin, block.num_instructions, split.mask);
  split.op = 0;
}

// The op lacks lanes of the warp.
void BlockRunner::suspend(Warp& warp, Split& split, uint32_t op_index) {
  split.op = op_index;
  split.need = warp.missing;
  split.wait = WaitKind::kConverge;
  const BasicBlock& block = launch_.program->blocks[split.block];
  split.barrier_op = &launch_.program->ops[block.first_op + op_index];
  if (warp.missing_any_op) {  // bar.warp.sync: it is done when the others have come
    split.wait = WaitKind::kWarpSync;
    split.op = op_index + 1;
    context_.instructions += 1;
    count_run(block, op_index, op_index + 1, split.mask);
  }
  warp.missing = 0;
  warp.missing_any_op = false;
}

void BlockRunner::settle_waits(Warp& warp) {
  settle_converging(warp);
  uint32_t at_sync = 0;
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    if (warp.splits[i].wait == WaitKind::kWarpSync) at_sync |= warp.splits[i].mask;
  }
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    Split& s = warp.splits[i];
    if (s.wait == WaitKind::kWarpSync && (s.need & warp.live & ~at_sync) == 0) {
      s.wait = WaitKind::kNone;
    }
  }
}

// Splits that wait at the same op become one; it runs when no lane is missing any more.
void BlockRunner::settle_converging(Warp& warp) {
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    Split& s = warp.splits[i];
    if (s.wait != WaitKind::kConverge) continue;
    for (uint32_t j = i + 1; j < warp.num_splits;) {
      Split& other = warp.splits[j];
      if (other.wait == WaitKind::kConverge && other.block == s.block && other.op == s.op) {
        s.mask |= other.mask;
        s.need |= other.need;
        remove_split(warp, other);
      } else {
        ++j;
      }
    }
    if ((s.need & warp.live & ~s.mask) == 0) s.wait = WaitKind::kNone;
  }
}

void BlockRunner::finish_block(Warp& warp, Split& split, const BasicBlock& block) {
  if (block.terminator == Terminator::kFall) {
    split.block = block.next;
    return;
  }
  const Op& op = launch_.program->ops[block.first_op + block.num_ops];
  switch (block.terminator) {
    case Terminator::kFall:
      break;
    case Terminator::kJump:
      split.block = block.taken;
      break;
    case Terminator::kBranch:
      branch(warp, split, block, guarded_mask(warp, op, split.mask));
      break;
    case Terminator::kTable:
      branch_table(warp, split, block, op);
      break;
    case Terminator::kExit:
      exit_lanes(warp, split, block, guarded_mask(warp, op, split.mask));
      break;
    case Terminator::kBarrier:
      reach_barrier(warp, split, block, op);
      break;
  }
}

void BlockRunner::branch(Warp& warp, Split& split, const BasicBlock& block, uint32_t taken) {
  if (taken == split.mask) {
    split.block = block.taken;
    return;
  }
  split.block = block.next;
  split.mask &= ~taken;
  if (taken != 0) add_split(warp, block.taken, taken);
}

void BlockRunner::branch_table(Warp& warp, Split& split, const BasicBlock& block, const Op& op) {
  uint32_t rest = guarded_mask(warp, op, split.mask);
  const uint32_t falling = split.mask & ~rest;
  remove_split(warp, split);
  if (falling != 0) add_split(warp, block.next, falling);
  while (rest != 0) {
    const uint32_t index = lane_value(warp, op.a, lowest_lane(rest));
    if (index >= static_cast<uint64_t>(op.imm)) {
      raise_fault(warp, op, "the index of a branch table is out of range");
    }
    uint32_t same = 0;
    for (uint32_t m = rest; m != 0; m &= m - 1) {
      const uint32_t lane = lowest_lane(m);
      if (lane_value(warp, op.a, lane) == index) same |= 1u << lane;
    }
    rest &= ~same;
    add_split(warp, op.list[index], same);
  }
}

void BlockRunner::exit_lanes(Warp& warp, Split& split, const BasicBlock& block, uint32_t mask) {
  split.mask &= ~mask;
  split.block = block.next;
  if (split.mask == 0) remove_split(warp, split);
  if (mask == 0) return;
  warp.live &= ~mask;
  settle_waits(warp);
  for (uint32_t id = 0; id < kNumBarriers; ++id) {
    if (barriers_[id].expected != 0) try_complete(id);
  }
}

void BlockRunner::check_count(Warp& warp, const Op& op, uint32_t id, uint32_t count) {
  BarrierState& barrier = barriers_[id];
  const bool whole = count == 0;
  if (whole) count = launch_.num_warps() * kLanes;
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
  const uint32_t lane = lowest_lane(mask);
  const uint32_t id = lane_value(warp, op.a, lane);
  if (id >= kNumBarriers) raise_fault(warp, op, "a barrier's number is 0 to 15");
  const uint32_t count = op.b == kNoRegister ? 0 : lane_value(warp, op.b, lane);
  if (op.b != kNoRegister && count == 0) raise_fault(warp, op, "a barrier of 0 threads");
  check_count(warp, op, id, count);

  const auto kind = static_cast<BarrierKind>(op.space);
  if (mask != split.mask) add_split(warp, block.next, split.mask & ~mask);
  split.mask = mask;
  split.block = block.next;
  if (kind == BarrierKind::kArrive) {
    arrive(warp, op, id, mask);
    return;
  }
  if (kind == BarrierKind::kReduce) {
    const uint32_t p = mask_at(warp, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0);
    barriers_[id].ones += static_cast<uint32_t>(__builtin_popcount(p & mask));
    barriers_[id].total += static_cast<uint32_t>(__builtin_popcount(mask));
  }
  split.wait = WaitKind::kBarrier;
  split.barrier = static_cast<uint8_t>(id);
  split.barrier_op = &op;
  waiting_[warp.index][id] |= mask;
  try_complete(id);
}

void BlockRunner::arrive(Warp& warp, const Op& op, uint32_t id, uint32_t mask) {
  uint32_t& lanes = arriving_[warp.index][id];
  if (lanes & mask) raise_fault(warp, op, "a lane arrives twice before its warp did once");
  lanes |= mask;
  if ((warp.live & ~lanes) != 0) return;
  lanes = 0;
  barriers_[id].arrived += kLanes;
  try_complete(id);
}

// A warp has come when all its lanes that are left have. Warps that ended count for bar.sync
// without a thread count.
void BlockRunner::try_complete(uint32_t id) {
  BarrierState& barrier = barriers_[id];
  uint32_t come = barrier.arrived;
  for (uint32_t i = 0; i < launch_.num_warps(); ++i) {
    const uint32_t live = warps_[i].live;
    const bool here = live != 0 && (live & ~waiting_[i][id]) == 0;
    if (here || (live == 0 && barrier.whole_block)) come += kLanes;
  }
  if (come >= barrier.expected) release(id);
}

void BlockRunner::release(uint32_t id) {
  const BarrierState barrier = barriers_[id];
  barriers_[id] = {};
  for (uint32_t i = 0; i < launch_.num_warps(); ++i) {
    Warp& warp = warps_[i];
    waiting_[i][id] = 0;
    for (uint32_t s = 0; s < warp.num_splits && warp.live != 0; ++s) {
      Split& split = warp.splits[s];
      if (split.wait != WaitKind::kBarrier || split.barrier != id) continue;
      split.wait = WaitKind::kNone;
      const Op& op = *split.barrier_op;
      if (static_cast<BarrierKind>(op.space) != BarrierKind::kReduce) continue;
      const auto how = static_cast<Combine>(op.flags & kOpFlagsMask);
      if (how == Combine::kPopc) {
        auto* d = reinterpret_cast<uint32_t*>(warp.registers + op.dst);
        for (uint32_t m = split.mask; m != 0; m &= m - 1) d[lowest_lane(m)] = barrier.ones;
        continue;
      }
      const bool result = how == Combine::kAnd ? barrier.ones == barrier.total : barrier.ones != 0;
      auto& d = *reinterpret_cast<uint32_t*>(warp.registers + op.dst);
      d = (d & ~split.mask) | (result ? split.mask : 0);
    }
  }
}

}  // namespace lssar::vdev
