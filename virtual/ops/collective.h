// Instructions that lanes of a warp execute together.
#pragma once

#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

// Whether lanes of `members` that have not exited are elsewhere. The instruction must then return
// without effect. The block runner executes it again once they have come.
inline bool lacks_lanes(Warp& w, u32 members) {
  const u32 need = members & w.live;
  if ((need & ~w.mask) == 0) return false;
  w.missing = need;
  return true;
}

// For instructions of the whole warp (.aligned).
inline bool lacks_warp(Warp& w, const Op& op) {
  if (w.mask == kAllLanes) return false;
  if (w.live != kAllLanes) {
    raise_fault(w, op, "an instruction of the whole warp, but not all of its 32 lanes are left");
  }
  return lacks_lanes(w, kAllLanes);
}

// The member mask of a .sync instruction: a register that has one value in all lanes.
inline bool lacks_members(Warp& w, const Op& op, u32 members_register) {
  const u32 members = lanes<u32>(w, members_register)[lowest_lane(w.mask)];
  if (w.mask & ~members) {
    raise_fault(w, op, "an executing lane is not in the member mask");
  }
  return lacks_lanes(w, members);
}

}  // namespace lssar::vdev::LSSAR_SIMD
