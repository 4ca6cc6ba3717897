// Barriers and exchanges between the lanes of a warp.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

LSSAR_DEVICE void block_barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

LSSAR_DEVICE void warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

LSSAR_DEVICE float shuffle_xor(float value, int lane_mask) {
  float result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=f"(result)
               : "f"(value), "r"(lane_mask));
  return result;
}

LSSAR_DEVICE float shuffle(float value, int source_lane) {
  float result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=f"(result)
               : "f"(value), "r"(source_lane));
  return result;
}

LSSAR_DEVICE u32 warp_maximum(u32 value) {
  u32 result;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

// Bit l is the condition of lane l.
LSSAR_DEVICE u32 warp_ballot(bool condition) {
  u32 result;
  asm volatile(
      "{\n"
      ".reg .pred in;\n"
      "setp.ne.u32 in, %1, 0;\n"
      "vote.sync.ballot.b32 %0, in, 0xffffffff;\n"
      "}"
      : "=r"(result)
      : "r"(static_cast<u32>(condition)));
  return result;
}

LSSAR_DEVICE bool warp_all(bool condition) {
  u32 result;
  asm volatile(
      "{\n"
      ".reg .pred in, out;\n"
      "setp.ne.u32 in, %1, 0;\n"
      "vote.sync.all.pred out, in, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, out;\n"
      "}"
      : "=r"(result)
      : "r"(static_cast<u32>(condition)));
  return result != 0;
}

}  // namespace lssar_device
