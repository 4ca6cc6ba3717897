// Packed heads in the Hopper forward: how queries reach a tile, and what rows without a query hold.
//
// kPackGqa. The rows of each consumer are a tile of tile/query_tiles.cuh with a TMA box of its own.
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_work.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"

namespace lssar_device {

// Loads whole queries into each consumer's rows of the query tile in `stage`. The rows past them
// keep what the consumer wrote there: zeros, or o if TMA stores it.
template <class Config>
LSSAR_DEVICE void load_packed_queries(const TmaParams& tma, const ForwardShared<Config>& shared,
                                      const ForwardWork<Config>& work, int stage, u32 full) {
  using Shape = HopperForwardShape<Config>;
  using Tile = typename Shape::QueryTile;
  const AttentionParams& params = tma.attention;
  const int box_bytes = typename Shape::QueryTiles(params).box_rows() * kSwizzleBytes;
  mbarrier_arrive_expect(full, Shape::kNumConsumers * Tile::kNumChunks * box_bytes);
#pragma unroll
  for (int consumer = 0; consumer < Shape::kNumConsumers; ++consumer) {
    const QueryRows<Config> rows = work.rows_of(params, consumer);
    const u32 address = shared.queries(stage).base + consumer * kWarpGroupRows * kSwizzleBytes;
#pragma unroll
    for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
      tma_load(address + chunk * Tile::kChunkBytes, tma.maps[kQueryMap], full,
               chunk * Tile::kChunkCols, rows.head - work.place.head * rows.group,
               static_cast<int>(rows.first), work.place.head, work.place.batch);
  }
}

// Writes zeros to those of the consumer's rows that no box fills.
template <class Config>
LSSAR_DEVICE void clear_unfilled_rows(const AttentionParams& params, ForwardShared<Config> shared,
                                      int group) {
  using Shape = HopperForwardShape<Config>;
  using Tile = typename Shape::QueryTile;
  const u32 zeros[4] = {0, 0, 0, 0};
  const int filled = typename Shape::QueryTiles(params).box_rows();
  const int end = (kWarpGroupRows - filled) * kSwizzleBytes;
#pragma unroll 1
  for (int stage = 0; stage < Shape::kQueryStages; ++stage)
#pragma unroll
    for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk) {
      const u32 rows = shared.queries(stage).base + chunk * Tile::kChunkBytes +
                       (group * kWarpGroupRows + filled) * kSwizzleBytes;
      for (int at = warp_group_thread() * kVectorBytes; at < end;
           at += kWarpGroupThreads * kVectorBytes)
        store_shared(rows + at, zeros);
    }
  fence_async_shared();  // before products read them
  consumer_barrier(group);
}

}  // namespace lssar_device
