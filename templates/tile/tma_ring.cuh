// A ring of stages in shared memory between one producer, which fills them by TMA, and groups of
// consumers.
//
// Each stage has two mbarriers: `full` ends a phase when its bytes are there, `empty` when
// the consumers have released it: each group, or each of its warps. Producer and consumers walk the
// stages in the same order, each with a cursor of its own.
//
// In a cluster of kBlocks blocks that walk the same tiles, each producer loads a share of every
// tile and sends it to all. So a stage is free when the consumers of all blocks have released it,
// and a producer may send to blocks whose own one has not come that far: their `full` then counts
// bytes that it does not expect yet.
#pragma once

#include "templates/ptx/cluster.cuh"
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

  // By one thread, before anybody else uses them.
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

// This block's share of a tile that a cluster loads; to all its blocks, each of which expects
// Tile::kBytes. The map's box has the rows of a share.
template <int kBlocks, class Tile>
LSSAR_DEVICE void load_tile_share(u32 address, const TensorMap& map, u32 barrier, int col, i64 row,
                                  int head, int batch) {
  if constexpr (kBlocks == 1) {
    load_tile<Tile>(address, map, barrier, col, row, head, batch);
  } else {
    constexpr int kRows = Tile::kRows / kBlocks;
    static_assert(Tile::kRows % (kBlocks * kSwizzleRows) == 0, "the swizzle repeats every 8 rows");
    const int first = cluster_rank() * kRows;
#pragma unroll
    for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
      tma_load_multicast(address + chunk * Tile::kChunkBytes + first * kSwizzleBytes, map, barrier,
                         (1u << kBlocks) - 1, col + chunk * Tile::kChunkCols,
                         static_cast<int>(row) + first, head, batch);
  }
}

// One release of a stage, in every block of the cluster: called by several threads, of which the
// first have numbers from 0 on.
template <int kBlocks>
LSSAR_DEVICE void release(u32 empty, int thread) {
  if constexpr (kBlocks == 1) {
    if (thread == 0) mbarrier_arrive(empty);
  } else {
    if (thread < kBlocks) mbarrier_arrive_cluster(in_block(empty, thread));
  }
}

}  // namespace lssar_device
