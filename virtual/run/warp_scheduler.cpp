// Decides which lanes of a warp run next: splits, branches, barriers. The order in which lanes and
// warps proceed is decided only here and in BlockRunner::run_warps.
#include <algorithm>

#include <fmt/format.h>

#include "virtual/async/wgmma_unit.h"
#include "virtual/run/block_runner.h"
#include "virtual/state/fault.h"
#include "virtual/state/splits.h"

namespace lssar::vdev {
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

// Splits that waited at the end of the last turn may try again.
void BlockRunner::begin_turn(Warp& warp) {
  constexpr uint32_t kTurn = 1u << 16;  // basic blocks: lanes may poll memory for ever
  blocks_left_ = cluster_.launch.seed == 0 ? kTurn : 1u << cluster_.random.below(7);
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    Split& s = warp.splits[i];
    if (s.wait == WaitKind::kBlocked || s.wait == WaitKind::kPolled) s.wait = WaitKind::kNone;
  }
}

bool BlockRunner::can_run(const Warp& warp) {
  return std::any_of(warp.splits, warp.splits + warp.num_splits,
                     [](const Split& s) { return s.wait == WaitKind::kNone; });
}

void BlockRunner::run_warp(Warp& warp) {
  const KernelProgram& program = *cluster_.launch.program;
  Split* split = nullptr;
  while (blocks_left_-- != 0 && (split = pick(warp)) != nullptr) {
    const BasicBlock& block = program.blocks[split->block];
    warp.mask = split->mask;
    if (split->op == 0 && split->mask == warp.live && !block.may_block && !cluster_.launch.strict) {
      const Op* op = program.ops.data() + block.first_op;
      for (const Op* const end = op + block.num_ops; op != end; ++op) op->run(warp, *op);
      cluster_.instructions += block.num_instructions;
      count_run(warp, block, 0, block.num_instructions, split->mask);
    } else {
      run_ops(warp, *split, block);
      if (split->wait != WaitKind::kNone) {
        settle_waits(warp);
        continue;
      }
    }
    if (cluster_.instructions > cluster_.launch.max_block_instructions) {
      throw LaunchFault{device_error(
          fmt::format("{}: {} executed more than {} warp instructions",
                      describe_place(*warp.cta, warp.index, program.ops[block.first_op]),
                      cluster_.launch.cluster_size() > 1 ? "the cluster" : "the block",
                      cluster_.launch.max_block_instructions))};
    }
    finish_block(warp, *split, block);
    if (warp.polled != 0) yield_after_poll(warp);
  }
}

// Lanes whose wait failed let the others have their turn.
void BlockRunner::yield_after_poll(Warp& warp) {
  for (uint32_t i = 0; i < warp.num_splits; ++i) {
    Split& s = warp.splits[i];
    if (s.wait != WaitKind::kNone || (s.mask & warp.polled) == 0) continue;
    s.wait = WaitKind::kPolled;
    s.waits_at = warp.polled_op;
  }
  warp.polled = 0;
}

// For only some lanes, from the middle of a block, or with checks.
void BlockRunner::run_ops(Warp& warp, Split& split, const BasicBlock& block) {
  const Op* ops = cluster_.launch.program->ops.data() + block.first_op;
  const bool full = split.mask == warp.live;
  const uint32_t begin = split.op;
  for (uint32_t i = begin; i < block.num_ops; ++i) {
    if (cluster_.launch.strict) {
      run_checked(warp, ops[i], full);
    } else {
      (full ? ops[i].run : ops[i].run_masked)(warp, ops[i]);
    }
    if (warp.missing != 0 || warp.blocked) {
      cluster_.instructions += i - begin;
      count_run(warp, block, begin, i, split.mask);
      suspend(warp, split, i);
      return;
    }
  }
  cluster_.instructions += block.num_instructions - begin;
  count_run(warp, block, begin, block.num_instructions, split.mask);
  split.op = 0;
}

void BlockRunner::run_checked(Warp& warp, const Op& op, bool full) {
  if (cluster_.launch.program->facts_of(op).wgmma_registers) wgmma_->touch(warp, op);
  if (warp.checks->tainted) {
    checker_->run_tainted(warp, op, full);
    return;
  }
  (full ? op.run : op.run_masked)(warp, op);
  if (warp.checks->loaded_taint) checker_->apply_loaded_taint(warp, op);
}

// The op waits for lanes of its warp, or for something else.
void BlockRunner::suspend(Warp& warp, Split& split, uint32_t op_index) {
  split.op = op_index;
  split.need = warp.missing;
  split.wait = warp.blocked ? WaitKind::kBlocked : WaitKind::kConverge;
  const BasicBlock& block = cluster_.launch.program->blocks[split.block];
  split.waits_at = &cluster_.launch.program->ops[block.first_op + op_index];
  const bool converges = !warp.blocked && !warp.missing_any_op;
  if (converges && (split.need & warp.live & ~split.mask) == 0) {
    raise_fault(warp, *split.waits_at, "lanes that it needs do not execute it: its guard is false");
  }
  if (warp.missing_any_op) {  // bar.warp.sync: complete once the others have come
    cluster_.instructions += 1;
    count_run(warp, block, op_index, op_index + 1, split.mask);
    const uint32_t executing = guarded_mask(warp, *split.waits_at, split.mask);
    split.op = op_index + 1;
    split.wait = WaitKind::kWarpSync;
    if (executing != split.mask) {  // lanes that its guard excludes go on
      Split going = split;
      going.mask &= ~executing;
      going.wait = WaitKind::kNone;
      split.mask = executing;
      warp.splits[warp.num_splits++] = going;
    }
  }
  warp.missing = 0;
  warp.missing_any_op = false;
  warp.blocked = false;
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
      if (Checker* c = cluster_.checker) c->warp_sync(warp, s.need & warp.live);
      s.wait = WaitKind::kNone;
    }
  }
}

// Splits that wait at the same op become one. It runs once no lane is missing.
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
  const Op& op = cluster_.launch.program->ops[block.first_op + block.num_ops];
  switch (block.terminator) {
    case Terminator::kFall:
      break;
    case Terminator::kJump:
      split.block = block.taken;
      break;
    case Terminator::kBranch:
      if (cluster_.launch.strict && warp.checks->tainted)
        checker_->check_branch(warp, op, split.mask);
      branch(warp, split, block, guarded_mask(warp, op, split.mask));
      break;
    case Terminator::kTable:
      branch_table(warp, split, block, op);
      break;
    case Terminator::kExit:
      if (cluster_.launch.strict && warp.checks->tainted)
        checker_->check_branch(warp, op, split.mask);
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
    const uint32_t index = lane_value(warp, op.a, lowest_bit(rest));
    if (index >= static_cast<uint64_t>(op.imm)) {
      raise_fault(warp, op, "the index of a branch table is out of range");
    }
    uint32_t same = 0;
    for (uint32_t m = rest; m != 0; m &= m - 1) {
      const uint32_t lane = lowest_bit(m);
      if (lane_value(warp, op.a, lane) == index) same |= 1u << lane;
    }
    rest &= ~same;
    add_split(warp, op.list[index], same);
  }
}

}  // namespace lssar::vdev
