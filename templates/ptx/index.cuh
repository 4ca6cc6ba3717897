// Thread and block indices. Blocks and grids are one-dimensional throughout.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

LSSAR_DEVICE int thread_index() {
  u32 value;
  asm("mov.u32 %0, %%tid.x;" : "=r"(value));
  return static_cast<int>(value);
}

LSSAR_DEVICE u32 block_index() {
  u32 value;
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(value));
  return value;
}

LSSAR_DEVICE u32 grid_blocks() {
  u32 value;
  asm("mov.u32 %0, %%nctaid.x;" : "=r"(value));
  return value;
}

LSSAR_DEVICE int lane_index() { return thread_index() % kWarpThreads; }
LSSAR_DEVICE int warp_index() { return thread_index() / kWarpThreads; }

}  // namespace lssar_device
