// Thread and block indices. Blocks and grids are one-dimensional throughout.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

#define LSSAR_SPECIAL_REGISTER(name, type, special)  \
  LSSAR_DEVICE type name() {                         \
    u32 value;                                       \
    asm("mov.u32 %0, %%" special ";" : "=r"(value)); \
    return static_cast<type>(value);                 \
  }
LSSAR_SPECIAL_REGISTER(thread_index, int, "tid.x")
LSSAR_SPECIAL_REGISTER(block_index, u32, "ctaid.x")
LSSAR_SPECIAL_REGISTER(grid_blocks, u32, "nctaid.x")

LSSAR_DEVICE int lane_index() { return thread_index() % kWarpThreads; }
LSSAR_DEVICE int warp_index() { return thread_index() / kWarpThreads; }

}  // namespace lssar_device
