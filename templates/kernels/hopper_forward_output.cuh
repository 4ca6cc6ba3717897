// Stores o by TMA, through the query tile.
//
// A consumer writes o over its rows of the query tile, which it no longer needs, and TMA copies
// whole rows to global memory.
//
// kStoresByTma. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_work.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// Starts the copies of the consumer's rows and waits until they have read them. One thread.
template <class Config>
LSSAR_DEVICE void copy_output(const TmaParams& tma, const ForwardShared<Config>& shared,
                              const ForwardWork<Config>& work, int group, int stage) {
  using Tile = typename HopperForwardShape<Config>::OutputTile;
  const int first = group * kWarpGroupRows;
#pragma unroll
  for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk) {
    const u32 from = shared.output(stage).base + chunk * Tile::kChunkBytes + first * kSwizzleBytes;
    if constexpr (Config::kPackGqa) {
      const QueryRows<Config> at = work.rows_of(tma.attention, group);
      tma_store(tma.maps[kOutputMap], from, chunk * Tile::kChunkCols,
                at.head - work.place.head * at.group, static_cast<int>(at.first), work.place.head,
                work.place.batch);
    } else {
      tma_store(tma.maps[kOutputMap], from, chunk * Tile::kChunkCols,
                static_cast<int>(work.first_row) + first, work.place.head, work.place.batch);
    }
  }
  bulk_commit();
  bulk_wait_read<0>();
}

// REQUIRES: o is divided by the sums of its weights, and no product reads the consumer's queries.
template <class Config, int kTiles>
LSSAR_DEVICE void store_output(const TmaParams& tma, const ForwardShared<Config>& shared,
                               const ForwardWork<Config>& work, int group, int stage,
                               const Fragment<kTiles>& o) {
  using Mma = typename Config::Mma;
  typename Mma::template Operand<kTiles> rounded;
  Mma::round(rounded, o);
  store_operand(shared.output(stage),
                group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows, rounded);
  fence_async_shared();
  consumer_barrier(group);
  if (warp_group_thread() == 0) copy_output(tma, shared, work, group, stage);
}

}  // namespace lssar_device
