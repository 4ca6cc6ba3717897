// Keys that rows of the Hopper forward do not see, beside windows and past the ends of sequences.
//
// kHasWindow and kHasLengths. See hopper_forward.cuh, tile/window.cuh and tile/clear_unseen.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/clear_unseen.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/window.cuh"

namespace lssar_device {

// kHasWindow: the keys that all rows of the warp see, from row `row0` on. None if a row has no
// query.
template <class Config>
LSSAR_DEVICE void find_common_keys(VisibleKeys& keys, const AttentionParams& params,
                                   const QueryRows<Config>& rows, int row0) {
  keys = VisibleKeys();
  if (rows.end_query(row0, kWarpRows) > seq_q<Config>(params)) return;
  keys = common_keys(num_visible_keys<Config>(params, rows.query(row0)),
                     num_visible_keys<Config>(params, rows.query(row0 + kWarpRows - 1)));
}

// Values that no row of the call sees. They may be NaN, and 0 times NaN is NaN.
template <class Config>
struct UnseenValues {
  using Shape = HopperForwardShape<Config>;
  static constexpr bool kMayExist = Config::kHasWindow || Config::kHasLengths;

  UnseenRows<Config> keys;

  LSSAR_DEVICE void place(const AttentionParams& params) {
    if constexpr (Config::kHasLengths) keys = unseen_in_sequence<Config>(params);
    if constexpr (Config::kHasWindow && !Config::kHasLengths) keys = unseen_keys<Config>(params);
  }

  // Writes zeros over those of tile `tile`. Their stage is the next one, `at`, or, with kAfterKeys,
  // the one after it. All consumers call it, before their products with the values start.
  template <bool kAfterKeys>
  LSSAR_DEVICE void clear(const ForwardShared<Config>& shared, RingCursor<Shape::kStages> at,
                          int group, int tile) const {
    if (!keys.meets(i64{tile} * Shape::kBlockCols, Shape::kBlockCols)) return;
    if constexpr (kAfterKeys) at.advance();
    mbarrier_wait(shared.ring().full(at.stage), at.parity);
    constexpr int kThreads = Shape::kNumConsumers * kWarpGroupThreads;
    clear_unseen_rows<Config, kThreads>(typename Shape::ValueTile{shared.stage(at.stage)}, keys,
                                        i64{tile} * Shape::kBlockCols, 0, Shape::kBlockCols,
                                        group * kWarpGroupThreads + warp_group_thread());
    all_consumers_barrier<Shape::kNumConsumers>();
  }
};

}  // namespace lssar_device
