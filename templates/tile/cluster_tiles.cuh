// Tiles that the blocks of a cluster share (HopperOptions::cluster). kBlocks is the cluster's size,
// at least 2.
//
// The blocks walk over the same tiles. Each producer loads a share of every tile and sends it to
// all blocks. So a stage is free only when the consumers of all blocks have released it. A producer
// may send to a block whose own producer has not reached that stage yet; that block's `full`
// barrier then counts bytes before it expects them.
#pragma once

#include "templates/ptx/cluster.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

// Loads this block's share of a tile, and sends it to all blocks. Each of them expects
// Tile::kBytes. The map's box has the rows of a share.
template <int kBlocks, class Tile>
LSSAR_DEVICE void load_tile_share(u32 address, const TensorMap& map, u32 barrier, int col, i64 row,
                                  int head, int batch) {
  constexpr int kRows = Tile::kRows / kBlocks;
  static_assert(Tile::kRows % (kBlocks * kSwizzleRows) == 0, "the swizzle repeats every 8 rows");
  const int first = cluster_rank() * kRows;
#pragma unroll
  for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
    tma_load_multicast(address + chunk * Tile::kChunkBytes + first * kSwizzleBytes, map, barrier,
                       (1u << kBlocks) - 1, col + chunk * Tile::kChunkCols,
                       static_cast<int>(row) + first, head, batch);
}

// Releases a stage in every block of the cluster. Several threads call it, numbered from 0.
template <int kBlocks>
LSSAR_DEVICE void release_share(u32 empty, int thread) {
  if (thread < kBlocks) mbarrier_arrive_cluster(in_block(empty, thread));
}

}  // namespace lssar_device
