// A ring of slots in shared memory between one producer, which fills them by TMA, and groups of
// consumers.
//
// Each slot has two mbarriers: `full` ends a phase when its bytes are there, `empty` when
// the consumers have released it: each group, or each of its warps. Producer and consumers walk the
// slots in the same order, each with a cursor of its own.
#pragma once

#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/types.cuh"

namespace lssar_device {

template <int kSlots>
struct RingBarriers {
  static constexpr int kBytes = 2 * kSlots * kBarrierBytes;

  u32 base;

  LSSAR_DEVICE u32 full(int slot) const { return base + slot * kBarrierBytes; }
  LSSAR_DEVICE u32 empty(int slot) const { return base + (kSlots + slot) * kBarrierBytes; }

  // By one thread, before anybody else uses them.
  LSSAR_DEVICE void init(int num_consumers) const {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      mbarrier_init(full(slot), 1);
      mbarrier_init(empty(slot), num_consumers);
    }
  }
};

// A place in the ring: the slot, and the parity of its phase.
template <int kSlots>
struct RingCursor {
  int slot = 0;
  u32 parity = 0;

  LSSAR_DEVICE void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// Starts the load of a SwizzledTile, chunk by chunk: rows from `row` on and columns from `col` on
// of a slice of the map's 4D tensor. The barrier expects Tile::kBytes.
template <class Tile>
LSSAR_DEVICE void load_tile(u32 address, const TensorMap& map, u32 barrier, int col, i64 row,
                            int head, int batch) {
#pragma unroll
  for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
    tma_load(address + chunk * Tile::kChunkBytes, map, barrier, col + chunk * Tile::kChunkCols,
             static_cast<int>(row), head, batch);
}

}  // namespace lssar_device
