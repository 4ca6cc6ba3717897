// A ring of stages that a producer fills by TMA and consumers read.
//
// It is in shared memory.
//
// Each stage has two mbarriers. `full` completes a phase when the stage's bytes have come, `empty`
// when every consumer has released it. Producer and consumers walk through the stages in the same
// order, each with its own cursor. Blocks of a cluster share stages: tile/cluster_tiles.cuh.
#pragma once

#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/types.cuh"
#include "templates/tile/swizzled_tile.cuh"

namespace lssar_device {

template <int kStages>
struct RingBarriers {
  static constexpr int kBytes = 2 * kStages * kBarrierBytes;

  u32 base;

  LSSAR_DEVICE u32 full(int stage) const { return base + stage * kBarrierBytes; }
  LSSAR_DEVICE u32 empty(int stage) const { return base + (kStages + stage) * kBarrierBytes; }

  // Called by one thread before the others use them.
  LSSAR_DEVICE void init(int num_consumers) const {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), num_consumers);
    }
  }
};

// A place in the ring: the stage, and the parity of its phase.
template <int kStages>
struct RingCursor {
  int stage = 0;
  u32 parity = 0;

  LSSAR_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Starts the load of a SwizzledTile from `row` and `col` on. The barrier must expect Tile::kBytes.
template <class Tile>
LSSAR_DEVICE void load_tile(u32 address, const TensorMap& map, u32 barrier, int col, i64 row,
                            int head, int batch) {
#pragma unroll
  for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
    tma_load(address + chunk * Tile::kChunkBytes, map, barrier, col + chunk * Tile::kChunkCols,
             static_cast<int>(row), head, batch);
}

}  // namespace lssar_device
