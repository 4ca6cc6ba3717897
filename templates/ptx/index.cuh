// Thread and block indices. Blocks and grids are one-dimensional throughout.
#pragma once

#include "templates/ptx/math.cuh"

namespace lssar_device {

LSSAR_INSTRUCTION(thread_index, int, "=r", (), "mov.u32 %0, %%tid.x;")
LSSAR_INSTRUCTION(block_index, u32, "=r", (), "mov.u32 %0, %%ctaid.x;")
LSSAR_INSTRUCTION(grid_blocks, u32, "=r", (), "mov.u32 %0, %%nctaid.x;")

LSSAR_DEVICE int lane_index() { return thread_index() % kWarpThreads; }
LSSAR_DEVICE int warp_index() { return thread_index() / kWarpThreads; }

}  // namespace lssar_device
