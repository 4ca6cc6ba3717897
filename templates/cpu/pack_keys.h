// Divides keys by their norms and packs them, once per kv head. Each block makes the panels of
// kPackKeys keys. In the backward the values and 1 / |k| follow in a panel. Pairs are not divided,
// and 1 / |k| follows in every pass.
#pragma once

#include "templates/cpu/factors.h"
#include "templates/cpu/key_walk.h"
#include "templates/cpu/rows.h"
#include "templates/cpu/shuffle.h"

namespace lssar_device {

// Loads the factors of kSteps steps; zeros follow them in the vector.
template <class Config, int kSteps>
LSSAR_HOST Floats<Config> load_steps(const typename Config::Element* from) {
  if constexpr (Config::kHasPairs)
    return (Floats<Config>)load_pairs<Config, kSteps>(from);
  else
    return load<Config, kSteps != Config::kLanes>(from);
}

// Adds the squares of a vector of factors.
template <class Config>
LSSAR_HOST Floats<Config> add_squares(Floats<Config> x, Floats<Config> sum) {
  if constexpr (!Config::kHasPairs) return x * x + sum;
  const Floats<Config> a = first_of<Config>((Words<Config>)x);
  const Floats<Config> b = second_of<Config>((Words<Config>)x);
  sum = a * a + sum;
  return b * b + sum;
}

// Writes kDim coordinates of kLanes rows as columns of a panel. Returns the sums of their squares.
// kIsPart: only `count` rows exist, and the others are zeros.
template <class Config, int kDim, bool kIsPart>
LSSAR_HOST Floats<Config> pack_columns(const typename Config::Element* from, i64 row_stride,
                                       int count, float* to) {
  constexpr int kLanes = Config::kLanes, kSteps = steps_of<Config>(kDim);
  constexpr int kRest = kSteps % kLanes;
  Floats<Config> squares = {};
  const auto pack = [&](int step, auto is_last) {
    constexpr int kCount = decltype(is_last)::kValue ? kRest : kLanes;
    Floats<Config> x[kLanes];
    LSSAR_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      x[i] = Floats<Config>{};
      if (!kIsPart || i < count)
        x[i] = load_steps<Config, kCount>(from + i * row_stride + step * (kDim / kSteps));
    }
    transpose<Config>(x);
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) {
      squares = add_squares<Config>(x[i], squares);
      store<Config>(to + (step + i) * Config::kPanelKeys, x[i]);
    }
  };
  for (int step = 0; step + kLanes <= kSteps; step += kLanes) pack(step, Constant<false>{});
  if constexpr (kRest != 0) pack(kSteps - kRest, Constant<true>{});
  return squares;
}

// The same for the rows of a tensor from `first` on, as many of kLanes as there are.
template <class Config, int kDim>
LSSAR_HOST Floats<Config> pack_rows(const TensorRef& tensor, i64 batch, i64 head, i64 first,
                                    i64 length, float* to) {
  using Element = typename Config::Element;
  const i64 left = length - first;
  const Element* const from = row_pointer<const Element>(tensor, batch, head, left > 0 ? first : 0);
  if (left >= Config::kLanes)
    return pack_columns<Config, kDim, false>(from, tensor.row_stride, Config::kLanes, to);
  return pack_columns<Config, kDim, true>(from, tensor.row_stride, left > 0 ? (int)left : 0, to);
}

// Whether a query sees a key of the panel.
template <class Config>
LSSAR_HOST bool is_panel_seen(const AttentionParams& params, i64 first_key) {
  const i64 queries = seq_q<Config>(params);
  return queries > 0 &&
         seen_by_some<Config>(params, 0, queries).has_some(first_key, Config::kPanelKeys);
}

// Keys past the end are zeros.
template <class Config>
LSSAR_HOST void pack_panel(const AttentionParams& params, i64 batch, i64 head, i64 first_key,
                           float* panel) {
  if constexpr (Config::kHasWindow) {
    if (!is_panel_seen<Config>(params, first_key)) return;
  }
  const i64 keys = seq_k<Config>(params);
  for (int j = 0; j < Config::kPanelKeys; j += Config::kLanes) {
    float* const to = panel + j;
    const Floats<Config> squares = pack_rows<Config, Config::kHeadDim>(
        params.k, batch, head, first_key + j, keys, to);
    Floats<Config> inverse;
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) inverse[i] = inverse_norm<Config>(squares[i]);
    for (int d = 0; !Config::kHasPairs && d < Config::kHeadDim; ++d) {
      float* const row = to + d * Config::kPanelKeys;
      store<Config>(row, load<Config>(row) * inverse);
    }
    if constexpr (Config::kIsBackward)
      pack_rows<Config, Config::kHeadDimV>(
          params.v, batch, head, first_key + j, keys,
          to + steps_of<Config>(Config::kHeadDim) * Config::kPanelKeys);
    if constexpr (Config::kIsBackward || Config::kHasPairs) {
      for (int i = 0; i < Config::kLanes; ++i)
        if (first_key + j + i >= keys) inverse[i] = 0.0f;
      store<Config>(to + (Config::kPanelRows - 1) * Config::kPanelKeys, inverse);
    }
  }
}

template <class Config>
LSSAR_HOST void pack_keys(const AttentionParams& params, u32 block, void* /*scratch*/) {
  const i64 keys = seq_k<Config>(params);
  const i64 blocks = (keys + Config::kPackKeys - 1) / Config::kPackKeys;
  const i64 slice = block / blocks;
  const i64 batch = slice / params.kv_heads, head = slice % params.kv_heads;
  const i64 begin = block % blocks * Config::kPackKeys;
  const i64 end = begin + Config::kPackKeys < keys ? begin + Config::kPackKeys : keys;
  for (i64 key = begin; key < end; key += Config::kPanelKeys)
    pack_panel<Config>(params, batch, head, key,
                       key_panel<Config>(params, slice, key / Config::kPanelKeys));
}

}  // namespace lssar_device
