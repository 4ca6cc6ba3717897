// Small helpers of the scheduler: lanes, masks and splits of a warp. Not for handlers.
#pragma once

#include <cstdint>

#include "virtual/state/warp.h"

namespace lssar::vdev {

inline uint32_t lowest_bit(uint32_t mask) { return static_cast<uint32_t>(__builtin_ctz(mask)); }

inline uint32_t mask_at(const Warp& warp, uint32_t offset) {
  return *reinterpret_cast<const uint32_t*>(warp.registers + offset);
}

// The active lanes for which the op's guard holds.
inline uint32_t guarded_mask(const Warp& warp, const Op& op, uint32_t mask) {
  if (op.guard == kNoRegister) return mask;
  return mask & (mask_at(warp, op.guard) ^ (op.guard_negated ? kAllLanes : 0));
}

inline uint32_t lane_value(const Warp& warp, uint32_t offset, uint32_t lane) {
  return reinterpret_cast<const uint32_t*>(warp.registers + offset)[lane];
}

inline void add_split(Warp& warp, uint32_t block, uint32_t mask) {
  warp.splits[warp.num_splits++] = {block, 0, mask, 0, nullptr, 0, WaitKind::kNone};
}

inline void remove_split(Warp& warp, Split& split) {
  split = warp.splits[warp.num_splits - 1];
  --warp.num_splits;
}

}  // namespace lssar::vdev
