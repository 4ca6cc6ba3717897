// How Op::list holds the operands of an op bound as Bind::kGeneric, and what their flags mean.
#pragma once

#include <cstdint>

namespace lssar::vdev {

// For each operand: register (or kNoRegister), low and high half of a literal or an offset, flags.
inline constexpr uint32_t kOperandWords = 4;
inline constexpr uint32_t kOperandPresent = 1;
inline constexpr uint32_t kOperandWide = 2;     // an address register has 64 bits
inline constexpr uint32_t kOperandNegated = 4;  // !p
// In Op::flags of a generic op.
inline constexpr uint8_t kGenericRelaxed = 1;  // .relaxed: neither acquires nor releases
// In Row::arg: the instruction may wait (block_on).
inline constexpr uint8_t kRowMayBlock = 0x80;

}  // namespace lssar::vdev
