// A lane's keys: norms, dk and dv.
//
// See hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_sum.cuh"
#include "templates/kernels/hopper_backward_dkdv_work.cuh"
#include "templates/ptx/assembler.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/clear_unseen.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/project.cuh"
#include "templates/tile/row_constants.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
struct DkdvKeyRows : DkdvQueryPart<Config> {
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  using Scale = GradScale<Config>;
  using Work = DkdvWork<Config>;
  using KeyGrads = Fragment<Config::kHeadDim / kTileCols>;
  using ValueGrads = Fragment<Config::kHeadDimV / kTileCols>;
  using DkdvQueryPart<Config>::group;
  using DkdvQueryPart<Config>::params;
  using DkdvQueryPart<Config>::shared;
  using DkdvQueryPart<Config>::warp_row0;

  float key_norm[2];  // 1 / |k_j|, 0 past the end

  // First of the consumer's rows in the block.
  LSSAR_DEVICE int group_row0() const { return group * kWarpGroupRows; }

  // The lane's row `half` among the keys. Unsigned, because extending a sign would take one more
  // register.
  LSSAR_DEVICE u32 key_row(const Work& work, int half) const {
    return static_cast<u32>(work.first_key + warp_row0() + fragment_row(half));
  }

  // inverse_scale: of weights that have a scale.
  LSSAR_DEVICE void write_values(ValueGrads& dv, float inverse_scale, const Work& work) const {
    Scale::multiply(dv, Config::kScalesWeights ? inverse_scale : 1.0f / kWeightRange<Config>);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 key = key_row(work, half);
      if (key < seq_k<Config>(params))
        write_row<Config, Config::kHeadDimV>(
            row_pointer<Element>(params.grad_v, work.batch, work.head, key), dv, half);
    }
  }

  // kHasNorm: dk is a sum of terms that have been divided by |k_j|.
  template <bool kHasNorm>
  LSSAR_DEVICE void write_keys(KeyGrads& dk, float inverse_scale, const Work& work) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Multiplied one after the other, because the product of both may be infinite where dk is
      // not.
      const float factor = kHasNorm ? 1.0f : key_norm[half];
#pragma unroll
      for (int n = 0; n < KeyGrads::kNumTiles; ++n) {
        dk.at[n][2 * half] = dk.at[n][2 * half] * inverse_scale * factor;
        dk.at[n][2 * half + 1] = dk.at[n][2 * half + 1] * inverse_scale * factor;
      }
      if constexpr (Config::kHasNorms)
        project_row<Mma>(dk, half, shared.keys(), warp_row0(), key_norm[half]);
      const u32 key = key_row(work, half);
      if (key < seq_k<Config>(params))
        write_row<Config, Config::kHeadDim>(
            row_pointer<Element>(params.grad_k, work.batch, work.head, key), dk, half);
    }
  }

  LSSAR_DEVICE void load_key_norms(const Work& work) {
    const i64 slice = i64{work.batch} * params.kv_heads + work.head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 key = key_row(work, half);
      key_norm[half] = key < seq_k<Config>(params)
                           ? params.k_inv_norm[slice * key_norm_pitch<Config>(params) + key]
                           : 0.0f;
      if constexpr (Config::kHasWindow) {
        if (unseen_keys<Config>(params).has(key)) key_norm[half] = 0.0f;  // it may be NaN
      }
    }
  }

  // Tells the scaler the largest |v_j| of the warp's keys.
  LSSAR_DEVICE void tell_value_norm() const {
    const float norm = square_root(largest_row_square(shared.values(), warp_row0()));
    if (lane_index() != 0) return;
    store_shared(shared.words() + warp_row0() / kWarpRows * 4, norm);
    mbarrier_arrive(shared.scales().norms());
  }

  // kHasWindow: whether the item has a residual: the same in all warps of all consumers, because it
  // depends on the item only.
  LSSAR_DEVICE bool has_residual_in_window(const DkdvItem<Config>& item) const {
    bool has_few = false;
#pragma unroll
    for (int col = 0; col < HopperDkdvShape<Config>::kBlockCols; col += kWarpThreads) {
      const i64 keys = num_visible_keys<Config>(params, i64{item.first_query} + col + lane_index());
      has_few |= keys > 0 && num_grad_parts<Config>(keys) > 1;
    }
    return !warp_all(!has_few);
  }

  // kHasWindow: whether some query of the item misses a key of the consumer, whose first one is row
  // row0 of the tile. Keys past the end are missed, so that all consumers mask an item that has a
  // residual.
  LSSAR_DEVICE bool hides_keys(const Work& work, const DkdvItem<Config>& item, int row0) const {
    const VisibleKeys common = common_keys(item.keys_of_first(params), item.keys_of_last(params));
    return uniform(!common.has_all(i64{work.first_key} + row0, kWarpGroupRows));
  }

  // kHasWindow: clears the weights and gradients of keys outside of a query's window, in the
  // 8-query tiles from first_tile to end_tile. `first_query` is the first of the item.
  template <bool kWithDk, int kTiles>
  LSSAR_DEVICE void hide_window(Fragment<kTiles>& s, Fragment<kTiles>& d, const Work& work,
                                int first_query, int first_tile, int end_tile) const {
    const i64 key = i64{work.first_key} + warp_row0();
#pragma unroll
    for (int n = first_tile; n < end_tile; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const VisibleKeys keys =
            num_visible_keys<Config>(params, i64{first_query} + fragment_col(n) + c);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (keys.has(key + fragment_row(half))) continue;
          s.at[n][2 * half + c] = 0.0f;
          if constexpr (kWithDk) d.at[n][2 * half + c] = 0.0f;
        }
      }
  }

  // Clears those of the consumer's keys and values that no row of the call sees.
  //
  // kHasLengths: also the rows past the sequence's end.
  LSSAR_DEVICE void clear_unseen(const Work& work) const {
    if constexpr (Config::kHasLengths) {
      clear_keys(work, unseen_in_sequence<Config>(params));
    } else {
      clear_keys(work, unseen_keys<Config>(params));
    }
  }

  template <class Unseen>
  LSSAR_DEVICE void clear_keys(const Work& work, const Unseen& unseen) const {
    const int row0 = group_row0(), end_row = row0 + kWarpGroupRows;
    if (!unseen.meets(i64{work.first_key} + row0, kWarpGroupRows)) return;
    const int thread = warp_group_thread();
    clear_unseen_rows<Config, kWarpGroupThreads>(shared.keys(), unseen, work.first_key, row0,
                                                 end_row, thread);
    clear_unseen_rows<Config, kWarpGroupThreads>(shared.values(), unseen, work.first_key, row0,
                                                 end_row, thread);
    consumer_barrier(group);
  }

  // kHasLengths: clears the item's queries and output gradients past the sequence's end, and loads
  // its row constants. All consumers call it, before their products with the tile start.
  LSSAR_DEVICE void clear_queries(const DkdvItem<Config>& item, int stage) const {
    using Shape = HopperDkdvShape<Config>;
    const UnseenInSequence past = unseen_queries<Config>(params);
    if (!past.meets(item.first_query, Shape::kBlockCols)) return;
    constexpr int kThreads = Shape::kNumConsumers * kWarpGroupThreads;
    const int thread = group * kWarpGroupThreads + warp_group_thread();
    clear_unseen_rows<Config, kThreads>(shared.queries(stage), past, item.first_query, 0,
                                        Shape::kBlockCols, thread);
    clear_unseen_rows<Config, kThreads>(shared.grads(stage), past, item.first_query, 0,
                                        Shape::kBlockCols, thread);
    if constexpr (!kScalesAhead<Config>)
      load_constants_to_end<Config, kThreads>(shared.constants(stage), params, item.head,
                                              item.first_query, thread);
    all_consumers_barrier<Shape::kNumConsumers>();
  }

  // Clears x for keys past the end, in the 8-query tiles from first_tile to end_tile. There x may
  // be infinite, and it meets zeros of the key tile or shares its scale with other keys.
  template <int kTiles>
  LSSAR_DEVICE void hide_past_end(Fragment<kTiles>& x, const Work& work, int first_tile,
                                  int end_tile) const {
    const i64 end = seq_k<Config>(params) - work.first_key;
    if (end >= HopperDkdvShape<Config>::kBlockRows) return;
#pragma unroll
    for (int n = first_tile; n < end_tile; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (warp_row0() + fragment_row(e / 2) >= end) x.at[n][e] = 0.0f;
  }
};

}  // namespace lssar_device
