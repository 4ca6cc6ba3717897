// The forward of few queries, as in decoding, where reading keys and values takes the time. Nothing
// is packed. The step that packs keys elsewhere multiplies them by all queries of the heads that
// share them, and writes the products to the workspace. The step of the forward makes weights of a
// row's products, and reads only the values whose weights matter.
//
// A score has other bits than in cpu/forward.h, because its products are summed in another order.
#pragma once

#include "templates/cpu/lockstep.h"
#include "templates/cpu/rows.h"
#include "templates/cpu/shuffle.h"

namespace lssar_device {

// Whether at most kFewRows rows share a kv head's keys. The products take the place of the panels.
template <class Config>
LSSAR_HOST bool has_few_queries(const AttentionParams& params) {
  static_assert(Config::kFewRows <= Config::kPanelRows, "so that the products have room");
  return seq_q<Config>(params) * (params.heads / params.kv_heads) <= Config::kFewRows;
}

// Products of the keys of kv head `slice` with row `row` of those that share them.
template <class Config>
LSSAR_HOST float* few_products(const AttentionParams& params, i64 slice, i64 row) {
  const i64 panels = (seq_k<Config>(params) + Config::kPanelKeys - 1) / Config::kPanelKeys;
  return key_panel<Config>(params, slice, 0) + row * panels * Config::kPanelKeys;
}

// Lane l is the product of row l of `rows` with `other`, or with itself if that is null.
template <class Config>
LSSAR_HOST Floats<Config> row_products(const typename Config::Element* rows, i64 row_stride,
                                       const float* other) {
  constexpr int kWhole = Config::kHeadDim / Config::kLanes * Config::kLanes;
  Floats<Config> acc[Config::kLanes] = {};
  const auto add = [&](int d, auto is_half) {
    constexpr bool kIsHalf = decltype(is_half)::kValue;
    const Floats<Config> y = other != nullptr ? load<Config, kIsHalf>(other + d) : Floats<Config>{};
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) {
      const Floats<Config> x = load<Config, kIsHalf>(rows + i * row_stride + d);
      acc[i] = x * (other != nullptr ? y : x) + acc[i];
    }
  };
  LSSAR_UNROLL
  for (int d = 0; d < kWhole; d += Config::kLanes) add(d, Constant<false>{});
  if constexpr (kWhole != Config::kHeadDim) add(kWhole, Constant<true>{});
  return lane_sums<Config>(acc);
}

// Multiplies the keys [begin, end) of a kv head, divided by their norms, by all queries that share
// them. Lanes past the last key repeat it.
template <class Config>
LSSAR_HOST void multiply_few(const AttentionParams& params, i64 slice, i64 begin, i64 end) {
  using Element = typename Config::Element;
  const i64 batch = slice / params.kv_heads, kv_head = slice % params.kv_heads;
  const i64 group = params.heads / params.kv_heads, queries = seq_q<Config>(params);
  const int num_rows = (int)(queries * group);
  alignas(64) float rows[Config::kFewRows * Config::kHeadDim];
  for (int r = 0; r < num_rows; ++r)
    load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, batch, kv_head * group + r / queries, r % queries),
        rows + r * Config::kHeadDim);
  for (i64 key = begin; key < end; key += Config::kLanes) {
    const Element* keys = row_pointer<const Element>(params.k, batch, kv_head, key);
    i64 stride = params.k.row_stride;
    alignas(64) Element part[Config::kLanes * Config::kHeadDim];
    if (key + Config::kLanes > end) {
      for (int i = 0; i < Config::kLanes; ++i) {
        const i64 row = key + i < end ? i : end - 1 - key;
        for (int d = 0; d < Config::kHeadDim; ++d)
          part[i * Config::kHeadDim + d] = keys[row * stride + d];
      }
      keys = part;
      stride = Config::kHeadDim;
    }
    Floats<Config> inverse = row_products<Config>(keys, stride, nullptr);
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) inverse[i] = inverse_norm<Config>(inverse[i]);
    for (int r = 0; r < num_rows; ++r)
      store<Config>(few_products<Config>(params, slice, r) + key,
                    row_products<Config>(keys, stride, rows + r * Config::kHeadDim) * inverse);
  }
}

}  // namespace lssar_device
