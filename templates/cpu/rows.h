// Finds rows of tensors, loads and stores them as floats, and has what the forward and the backward
// must compute alike for a row.
#pragma once

#include "templates/cpu/math.h"
#include "templates/cpu/shuffle.h"
#include "templates/cpu/window.h"
#include "templates/kernels/params.cuh"

namespace lssar_device {

template <class Config>
LSSAR_HOST i64 seq_q(const AttentionParams& params) {
  return Config::kSeqQ != 0 ? Config::kSeqQ : params.seq_q;
}

template <class Config>
LSSAR_HOST i64 seq_k(const AttentionParams& params) {
  return Config::kSeqK != 0 ? Config::kSeqK : params.seq_k;
}

template <class Element>
LSSAR_HOST Element* row_pointer(const TensorRef& tensor, i64 batch, i64 head, i64 row) {
  return (Element*)tensor.data + batch * tensor.batch_stride + head * tensor.head_stride +
         row * tensor.row_stride;
}

// Rows of one head.
struct RowPlace {
  i64 batch, head, kv_head;
  i64 first_row;
};

// The first of a block's kBlockRows query rows. A head's blocks take its rows in order.
template <class Config, int kBlockRows>
LSSAR_HOST RowPlace query_place(const AttentionParams& params, u32 block) {
  const i64 blocks = (seq_q<Config>(params) + kBlockRows - 1) / kBlockRows;
  const i64 slice = block / blocks;
  RowPlace place;
  place.batch = slice / params.heads;
  place.head = slice % params.heads;
  place.kv_head = place.head / (params.heads / params.kv_heads);
  place.first_row = block % blocks * kBlockRows;
  return place;
}

// The index of a row among [batch, heads, seq_q], as saved tensors have them.
template <class Config>
LSSAR_HOST i64 flat_row(const AttentionParams& params, const RowPlace& place, i64 row) {
  return (place.batch * params.heads + place.head) * seq_q<Config>(params) + row;
}

// What a row sees of all keys. For a range of keys, those of other ranges are among them.
template <class Config>
LSSAR_HOST VisibleKeys window_of_row(const AttentionParams& params, i64 row) {
  const i64 keys = Config::kIsRange ? params.num_keys : seq_k<Config>(params);
  const i64 shift = Config::kIsRange ? params.query_shift : keys - seq_q<Config>(params);
  return window_keys<Config>(row + shift, keys);
}

// N_i: the keys that a query sees, from the first on. For a range of keys, all keys count, those of
// other ranges too.
//
// kHasWindow: they are not the first ones. key_walk.h says which they are.
template <class Config>
LSSAR_HOST i64 visible_keys(const AttentionParams& params, i64 row) {
  if constexpr (Config::kHasWindow) return window_of_row<Config>(params, row).count();
  const i64 keys = Config::kIsRange ? params.num_keys : seq_k<Config>(params);
  if constexpr (Config::kIsCausal) {
    const i64 shift = Config::kIsRange ? params.query_shift : keys - seq_q<Config>(params);
    const i64 visible = row + 1 + shift;
    return visible < 0 ? 0 : visible < keys ? visible : keys;
  } else {
    return keys;
  }
}

// How many of the first `visible` keys are among the call's.
template <class Config>
LSSAR_HOST i64 seen_keys(const AttentionParams& params, i64 visible) {
  if constexpr (Config::kIsRange) {
    const i64 seen = visible - params.first_key, keys = seq_k<Config>(params);
    return seen < 0 ? 0 : seen < keys ? seen : keys;
  } else {
    return visible;
  }
}

// Loads kDim elements as floats and returns the sum of their squares.
template <class Config, int kDim>
LSSAR_HOST float load_row(const typename Config::Element* from, float* to) {
  constexpr int kWhole = kDim / Config::kLanes * Config::kLanes;
  Floats<Config> squares = {};
  for (int d = 0; d < kWhole; d += Config::kLanes) {
    const Floats<Config> x = load<Config>(from + d);
    squares = x * x + squares;
    store<Config>(to + d, x);
  }
  if constexpr (kWhole != kDim) {
    const Floats<Config> x = load<Config, true>(from + kWhole);
    squares = x * x + squares;
    store<Config, true>(to + kWhole, x);
  }
  return lane_sum<Config>(squares);
}

// kIsInvariant: gives a result one form: NaN has one pattern of bits, and 0 has no sign. Terms of
// weight 0 may change that sign, and other rows decide which of them are added.
template <class Config>
LSSAR_HOST Floats<Config> one_form(Floats<Config> x) {
  if constexpr (!Config::kIsInvariant) return x;
  return x == x ? x + 0.0f : splat<Config>(quiet_nan());
}

// Stores kHeadDimV columns of from * scale, or zeros.
template <class Config, class To>
LSSAR_HOST void store_scaled(To* to, const float* from, float scale, bool is_zero) {
  constexpr int kWhole = Config::kHeadDimV / Config::kLanes * Config::kLanes;
  for (int d = 0; d < kWhole; d += Config::kLanes)
    store<Config>(to + d, is_zero ? Floats<Config>{}
                                  : one_form<Config>(load<Config>(from + d) * scale));
  if constexpr (kWhole != Config::kHeadDimV)
    store<Config, true>(to + kWhole, is_zero
                                         ? Floats<Config>{}
                                         : one_form<Config>(load<Config>(from + kWhole) * scale));
}

// kSavesO: saves what rounding took from a row of o, which store_scaled has just stored at `o`.
template <class Config>
LSSAR_HOST void save_rounding(const AttentionParams& params, i64 saved_row,
                              const typename Config::Element* o, const float* from, float scale,
                              bool is_zero) {
  Bf16* const to = (Bf16*)params.saved_o + saved_row * Config::kHeadDimV;
  const auto rounding = [&](auto is_half, int d) LSSAR_WIDE {
    constexpr bool kIsHalf = decltype(is_half)::kValue;
    const Floats<Config> exact = is_zero ? Floats<Config>{} : load<Config>(from + d) * scale;
    store<Config, kIsHalf>(to + d, one_form<Config>(exact - load<Config, kIsHalf>(o + d)));
  };
  constexpr int kWhole = Config::kHeadDimV / Config::kLanes * Config::kLanes;
  for (int d = 0; d < kWhole; d += Config::kLanes) rounding(Constant<false>{}, d);
  if constexpr (kWhole != Config::kHeadDimV) rounding(Constant<true>{}, kWhole);
}

// c_i log2(e) / |q_i|, by which a query is multiplied before its products with unit vectors of k.
template <class Config>
LSSAR_HOST float query_scale(float squares, i64 visible) {
  return inverse_norm<Config>(squares) * (float)(Config::kLogHeadDim * log2_of(visible));
}

// b_i: the offset, but 0 in rows of at most three keys.
template <class Config>
LSSAR_HOST float row_offset(i64 visible) {
  return visible <= 3 ? 0.0f : Config::kOffset;
}

// What the forward for training saves of a row besides o and X.
struct RowStats {
  float r;  // natural units
  float m;
  float zs;
  float largest_score;  // in bits
};

// The planes of a row's saved statistics.
template <class Config>
struct RowPlanes {
  float* first;
  i64 pitch;

  LSSAR_HOST RowPlanes(const AttentionParams& params, i64 flat)
      : first(params.saved_stats + flat),
        pitch(i64{params.batch} * params.heads * seq_q<Config>(params)) {}
  LSSAR_HOST float& operator[](int plane) const { return first[plane * pitch]; }
};

template <class Config>
LSSAR_HOST void store_stats(const AttentionParams& params, i64 flat, const RowStats& row) {
  const RowPlanes<Config> to(params, flat);
  const float stats[] = {row.r, row.m, row.zs, row.largest_score};
  for (int i = 0; i < 4; ++i)
    to[i] = Config::kIsInvariant ? one_form<Config>(splat<Config>(stats[i]))[0] : stats[i];
}

template <class Config>
LSSAR_HOST RowStats load_stats(const AttentionParams& params, i64 flat) {
  const RowPlanes<Config> from(params, flat);
  return {from[0], from[1], from[2], from[3]};
}

// u = max((activation - origin) * slope + intercept, 0). Rows with an offset use the distance from
// the largest activation, so that the largest u is exactly 1 even where N P - b cancels.
struct WeightScale {
  float origin;
  float slope;
  float intercept;
};

// Made from saved numbers only, so that the forward and the backward have the same bits. REQUIRES:
// a live row.
template <class Config>
LSSAR_HOST WeightScale weight_scale(const RowStats& row, i64 visible) {
  const float largest =
      softplus_bits<Config>(splat<Config>(row.largest_score))[0];  // computed as in the panels
  if (row_offset<Config>(visible) == 0.0f) return {0.0f, 1.0f / largest, 0.0f};
  return {largest, (float)((double)visible * kLn2 / ((double)row.r * row.m)), 1.0f};
}

// Panels of k: [panel_slices, panels, kPanelRows, kPanelKeys]. In the workspace these take the
// place of the norms of k. The first kHeadDim rows of a panel are coordinates of the keys' unit
// vectors. In the backward, kHeadDimV rows of coordinates of the values follow, and one of 1 / |k|.
// kHasPairs: half as many rows have pairs of coordinates of k, and every pass has the last row.
//
// A slice is a kv head of a batch entry. The workspace has room for panels of params.panel_slices
// slices. The device computes no more of them at a time, and the next ones reuse their places.
template <class Config>
LSSAR_HOST float* key_panel(const AttentionParams& params, i64 slice, i64 panel) {
  constexpr i64 kPanelFloats = i64{Config::kPanelRows} * Config::kPanelKeys;
  const i64 panels = (seq_k<Config>(params) + Config::kPanelKeys - 1) / Config::kPanelKeys;
  const i64 place = (u32)slice % (u32)params.panel_slices;
  return params.k_inv_norm + (place * panels + panel) * kPanelFloats;
}

// 1 / |k| of a panel's keys.
template <class Config>
LSSAR_HOST const float* panel_norms(const float* panel) {
  return panel + (Config::kPanelRows - 1) * Config::kPanelKeys;
}

}  // namespace lssar_device
