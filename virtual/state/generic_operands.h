// The operands of an op bound as Bind::kGeneric: op.list holds kOperandWords words for each
// operand. For handlers that are compiled once, not per instruction set.
#pragma once

#include <cstdint>

#include "virtual/program/generic_layout.h"
#include "virtual/state/splits.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

class GenericOperands {
 public:
  GenericOperands(const Warp& warp, const Op& op) : registers_(warp.registers), list_(op.list) {}

  bool present(uint32_t n) const { return (word(n, 3) & kOperandPresent) != 0; }
  uint32_t reg(uint32_t n) const { return word(n, 0); }
  uint32_t value32(uint32_t n, uint32_t lane) const {
    return reinterpret_cast<const uint32_t*>(registers_ + reg(n))[lane];
  }
  uint64_t value64(uint32_t n, uint32_t lane) const {
    return reinterpret_cast<const uint64_t*>(registers_ + reg(n))[lane];
  }
  // A predicate of all lanes.
  uint32_t mask(uint32_t n) const {
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(registers_ + reg(n));
    return (word(n, 3) & kOperandNegated) != 0 ? ~bits : bits;
  }
  int64_t literal(uint32_t n) const {
    return static_cast<int64_t>(word(n, 1) | static_cast<uint64_t>(word(n, 2)) << 32);
  }
  // The address that an operand names, as the instruction has it.
  uint64_t address(uint32_t n, uint32_t lane) const {
    const auto offset = static_cast<uint64_t>(literal(n));
    if (reg(n) == kNoRegister) return offset;
    if ((word(n, 3) & kOperandWide) != 0) return value64(n, lane) + offset;
    return static_cast<uint32_t>(value32(n, lane) + static_cast<uint32_t>(offset));
  }

  void set32(uint32_t n, uint32_t lane, uint32_t value) const {
    if (reg(n) != kNoRegister) reinterpret_cast<uint32_t*>(registers_ + reg(n))[lane] = value;
  }
  void set64(uint32_t n, uint32_t lane, uint64_t value) const {
    if (reg(n) != kNoRegister) reinterpret_cast<uint64_t*>(registers_ + reg(n))[lane] = value;
  }
  void set_mask(uint32_t n, uint32_t lanes, uint32_t value) const {
    if (reg(n) == kNoRegister) return;
    auto& bits = *reinterpret_cast<uint32_t*>(registers_ + reg(n));
    bits = (bits & ~lanes) | (value & lanes);
  }

 private:
  uint32_t word(uint32_t n, uint32_t i) const { return list_[kOperandWords * n + i]; }

  uint8_t* registers_;
  const uint32_t* list_;
};

// A place in the shared memory of a cluster.
struct SharedPlace {
  uint32_t rank;
  uint32_t address;
};
// Finds the place of a shared, shared::cluster or generic address. Faults if the address is none of
// these, lies outside the block's shared memory, or is not aligned to `align`.
SharedPlace locate_shared(const Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                          uint32_t bytes, uint32_t align);

}  // namespace lssar::vdev
