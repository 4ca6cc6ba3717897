#include "virtual/async/tensor_map_change.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "device/tensor_map_codec.h"
#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev {
namespace {

Checker* checker_of(const Warp& warp) { return cluster_of(warp).checker; }

StateSpace space_of_replace(const Warp& warp, const Op& op) {
  const std::string_view opcode = warp.cta->launch->program->instruction(op).opcode;
  if (opcode.find(".global.b1024") != opcode.npos) return StateSpace::kGlobal;
  return opcode.find(".shared") != opcode.npos ? StateSpace::kShared : StateSpace::kGeneric;
}

// The map at an address of global or of the block's own shared memory.
uint8_t* find_bytes(Warp& warp, const Op& op, StateSpace space, uint32_t lane, uint64_t address) {
  if (space == StateSpace::kGeneric) {
    const uint64_t window = address >> kWindowShift << kWindowShift;
    space = window == 0               ? StateSpace::kGlobal
            : window == kSharedWindow ? StateSpace::kShared
                                      : StateSpace::kGeneric;
  }
  if (space == StateSpace::kShared) {
    const SharedPlace place =
        locate_shared(warp, op, lane, address, kTensorMapBytes, kTensorMapAlignment);
    if (place.rank != warp.cta->rank) {
      raise_memory_fault(warp, op, MemoryFault::kOtherBlock, space, lane, address, kTensorMapBytes);
    }
    return warp.shared + place.address;
  }
  if (space == StateSpace::kGeneric) {
    raise_memory_fault(warp, op, MemoryFault::kBadSpace, space, lane, address, kTensorMapBytes);
  }
  if (address % kTensorMapAlignment != 0) {
    raise_memory_fault(warp, op, MemoryFault::kMisaligned, space, lane, address,
                       kTensorMapAlignment);
  }
  if (!find_global_range(warp, address, kTensorMapBytes)) {
    raise_memory_fault(warp, op, MemoryFault::kOutOfRange, space, lane, address, kTensorMapBytes);
  }
  return reinterpret_cast<uint8_t*>(address);
}

// Sets the map's field to value(lane), lane by lane.
template <typename Value>
void replace(Warp& warp, const Op& op, uint32_t dimension, uint32_t value_operand, Value value) {
  const GenericOperands in(warp, op);
  const auto field = static_cast<TensorMapField>((op.flags & kOpFlagsMask) >> 1);
  const StateSpace space = space_of_replace(warp, op);
  uint64_t addresses[kLanes] = {};
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    addresses[lowest_bit(m)] = in.address(0, lowest_bit(m));
  }
  if (Checker* const checker = checker_of(warp)) {
    check_access(warp, op, space, addresses, kTensorMapBytes);
    const bool tainted = in.reg(value_operand) != kNoRegister &&
                         (checker->taint(warp).get(in.reg(value_operand)).lanes & warp.mask) != 0;
    if (tainted) {
      checker->report(ReportKind::kUndefined, warp, op,
                      "a field of a tensor map becomes a value that nobody wrote");
    }
  }
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    uint8_t* const bytes = find_bytes(warp, op, space, lane, addresses[lane]);
    const Status status = replace_in_tensor_map(bytes, field, dimension, value(lane));
    if (status.ok()) continue;
    raise_fault(
        warp, op,
        fmt::format("lane {}: at {:#x}: {}", lane, addresses[lane], status.message()).c_str());
  }
}

// The address that all lanes name.
uint64_t uniform_address(const Warp& warp, const Op& op, uint32_t operand) {
  const GenericOperands in(warp, op);
  const uint64_t address = in.address(operand, 0);
  for (uint32_t lane = 1; lane < kLanes; ++lane) {
    if (in.address(operand, lane) != address) {
      raise_fault(warp, op, "the lanes of the warp name different tensor maps");
    }
  }
  return address;
}

// Checked as if every lane copied: each must have seen what was there, and each lane's later
// accesses follow the copy.
void check_copy(Warp& warp, const Op& op, uint64_t to, uint64_t from) {
  Checker* const checker = checker_of(warp);
  if (checker == nullptr) return;
  uint64_t addresses[kLanes];
  OpFacts facts = warp.cta->launch->program->facts_of(op);
  facts.access = MemoryUse::kRead;
  std::fill_n(addresses, kLanes, from);
  checker->access(warp, op, facts, StateSpace::kShared, addresses, kTensorMapBytes);
  const SharedPlace place = locate_shared(warp, op, 0, from, kTensorMapBytes, kTensorMapAlignment);
  if (checker->any_undefined(place.rank, place.address, kTensorMapBytes)) {
    checker->report(ReportKind::kUndefined, warp, op,
                    "the copy reads shared memory that nobody wrote");
  }
  facts.access = MemoryUse::kWrite;
  std::fill_n(addresses, kLanes, to);
  checker->access(warp, op, facts, StateSpace::kGlobal, addresses, kTensorMapBytes);
  checker->warp_sync(warp, kAllLanes);
}

}  // namespace

void replace_map_word(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  replace(warp, op, 0, 1, [&](uint32_t lane) { return in.value32(1, lane); });
}

void replace_map_address(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  replace(warp, op, 0, 1, [&](uint32_t lane) { return in.value64(1, lane); });
}

void replace_map_dimension(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  const auto dimension = static_cast<uint32_t>(in.literal(1));
  replace(warp, op, dimension, 2, [&](uint32_t lane) { return in.value32(2, lane); });
}

void replace_map_stride(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  const auto dimension = static_cast<uint32_t>(in.literal(1));
  replace(warp, op, dimension, 2, [&](uint32_t lane) { return in.value64(2, lane); });
}

void replace_map_mode(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  const auto value = static_cast<uint64_t>(in.literal(1));
  replace(warp, op, 0, 0, [&](uint32_t) { return value; });
}

void copy_map(Warp& warp, const Op& op) {
  if (warp.mask != kAllLanes) {
    if (warp.live != kAllLanes) {
      raise_fault(warp, op,
                  "an instruction of the whole warp, but not all of its 32 lanes are left");
    }
    warp.missing = kAllLanes;
    return;
  }
  const uint64_t to = uniform_address(warp, op, 0);
  const uint64_t from = uniform_address(warp, op, 1);
  const uint8_t* const source = find_bytes(warp, op, StateSpace::kShared, 0, from);
  uint8_t* const target = find_bytes(warp, op, StateSpace::kGlobal, 0, to);
  check_copy(warp, op, to, from);
  std::memcpy(target, source, kTensorMapBytes);
}

}  // namespace lssar::vdev
