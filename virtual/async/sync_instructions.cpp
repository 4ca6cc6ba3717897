#include "virtual/async/sync_instructions.h"

#include <fmt/format.h>

#include "virtual/async/cluster_barrier.h"
#include "virtual/check/checker.h"
#include "virtual/program/wgmma.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev {
namespace {

constexpr uint64_t kOffsetMask = (uint64_t{1} << kRankShift) - 1;

// The registers per thread that setmaxnreg asks for, checked.
uint32_t checked_count(Warp& warp, const Op& op) {
  constexpr int64_t kLeast = 24;
  constexpr int64_t kMost = 256;
  constexpr int64_t kUnit = 8;
  if (op.imm < kLeast || op.imm > kMost || op.imm % kUnit != 0) {
    raise_fault(warp, op,
                fmt::format("{} registers: allowed are {} to {} in steps of {}", op.imm, kLeast,
                            kMost, kUnit)
                    .c_str());
  }
  if (warp.mask != warp.live || warp.live != kAllLanes) {
    raise_fault(warp, op, "setmaxnreg must be executed by all lanes of the warp");
  }
  const uint32_t group = warp.index / kWarpsPerGroup * kWarpsPerGroup;
  if (cluster_of(warp).launch.num_warps() < group + kWarpsPerGroup) {
    raise_fault(warp, op, "setmaxnreg needs a whole warp group, and this is a part of one");
  }
  return static_cast<uint32_t>(op.imm);
}

uint64_t map_address(Warp& warp, const Op& op, uint64_t address, uint32_t rank) {
  if (rank >= cluster_of(warp).ctas.size()) {
    raise_fault(
        warp, op,
        fmt::format("block {} of a cluster of {}", rank, cluster_of(warp).ctas.size()).c_str());
  }
  const uint64_t window = address >> kWindowShift << kWindowShift;
  return window | static_cast<uint64_t>(rank) << kRankShift | (address & kOffsetMask);
}

uint32_t rank_of(uint64_t address) {
  return static_cast<uint32_t>((address & 0xffffffffu) >> kRankShift);
}

}  // namespace

void fence_proxy_async(Warp& warp, const Op&) {
  if (Checker* checker = cluster_of(warp).checker) checker->fence_proxy_async(warp, warp.mask);
}

void fence_mbarrier_init(Warp& warp, const Op&) {
  if (Checker* checker = cluster_of(warp).checker) checker->fence_mbarrier_init(warp, warp.mask);
}

void fence_device(Warp& warp, const Op&) {
  if (Checker* checker = cluster_of(warp).checker) checker->fence_device(warp, warp.mask);
}

void set_registers_down(Warp& warp, const Op& op) {
  const uint32_t count = checked_count(warp, op);
  uint32_t& have = cluster_of(warp).warp_registers[warp.agent];
  if (count > have) {
    raise_fault(
        warp, op,
        fmt::format("setmaxnreg.dec to {} registers, but the warp has {}", count, have).c_str());
  }
  warp.cta->free_registers += (have - count) * kLanes;
  have = count;
  if (Checker* checker = cluster_of(warp).checker) checker->registers_set(warp, op);
  cluster_of(warp).note_event();
}

void set_registers_up(Warp& warp, const Op& op) {
  const uint32_t count = checked_count(warp, op);
  uint32_t& have = cluster_of(warp).warp_registers[warp.agent];
  if (count < have) {
    raise_fault(
        warp, op,
        fmt::format("setmaxnreg.inc to {} registers, but the warp has {}", count, have).c_str());
  }
  const uint32_t wanted = (count - have) * kLanes;
  if (wanted > warp.cta->free_registers) {
    block_on(warp, op);
    return;
  }
  warp.cta->free_registers -= wanted;
  have = count;
  if (Checker* checker = cluster_of(warp).checker) checker->registers_set(warp, op);
  cluster_of(warp).note_event();
}

void cluster_arrive(Warp& warp, const Op& op) { cluster_of(warp).barrier->arrive(warp, op); }
void cluster_wait(Warp& warp, const Op& op) { cluster_of(warp).barrier->wait(warp, op); }

void map_shared_32(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    const uint64_t d = map_address(warp, op, in.value32(1, lane), in.value32(2, lane));
    in.set32(0, lane, static_cast<uint32_t>(d));
  }
}

void map_shared_64(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    in.set64(0, lane, map_address(warp, op, in.value64(1, lane), in.value32(2, lane)));
  }
}

void shared_rank_32(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    in.set32(0, lane, rank_of(in.value32(1, lane)));
  }
}

void shared_rank_64(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    in.set32(0, lane, rank_of(in.value64(1, lane)));
  }
}

}  // namespace lssar::vdev
