// Turns the products of cpu/few_queries.h into outputs, a row at a time.
#pragma once

#include "templates/cpu/few_queries.h"
#include "templates/cpu/forward_output.h"

namespace lssar_device {

// Turns a row's products into activations, in place, and adds them to the row's sums. `scale`: from
// a product with a key's unit vector to a score in bits.
template <class Config>
LSSAR_HOST void activate_row(float* products, float scale, RowState& row) {
  constexpr int kCount = Config::kPanelVectors;
  for (i64 first = 0; first < row.visible; first += Config::kBlockKeys) {
    Floats<Config> sum = {}, most = splat<Config>(-infinity());
    for (i64 key = first; key < first + Config::kBlockKeys && key < row.visible;
         key += Config::kPanelKeys) {
      const i64 left = row.visible - key;
      Floats<Config> x[kCount], u[kCount], activation[kCount];
      LSSAR_UNROLL
      for (int c = 0; c < kCount; ++c) {
        x[c] = load<Config>(products + key + c * Config::kLanes) * scale;
        if (left < Config::kPanelKeys) {
          const Ints<Config> is_seen = lane_numbers<Config>() + c * Config::kLanes < (int)left;
          x[c] = is_seen ? x[c] : splat<Config>(-infinity());
        }
      }
      exp2_of_minus_abs<Config>(x, u);
      softplus_from<Config>(x, u, activation);
      LSSAR_UNROLL
      for (int c = 0; c < kCount; ++c) {
        sum += activation[c];
        most = larger<Config>(x[c], most);
        store<Config>(products + key + c * Config::kLanes, activation[c]);
      }
    }
    row.sum += lane_sum<Config>(sum);
    const float score = lane_maximum<Config>(most);
    row.largest_score = score > row.largest_score ? score : row.largest_score;
  }
}

// Keys of a block whose values are read.
template <class Config>
struct LiveKeys {
  int count;
  int key[Config::kBlockKeys];
  float weight[Config::kBlockKeys];
};

// Computes weights of `keys` keys from their activations, adds them to the row's sum, and lists
// those that matter. What is left out is below 2^-24 of all weights together, because the largest
// weight is 1. A NaN is not left out.
template <class Config>
LSSAR_HOST void find_live_keys(const float* activations, int keys, RowState& row,
                               LiveKeys<Config>& live) {
  const WeightScale scale = row.scale;
  const float least = 0x1p-24f / (float)row.visible;
  Floats<Config> sum = {};
  alignas(64) float weights[Config::kBlockKeys];
  for (int key = 0; key < keys; key += Config::kLanes) {
    Floats<Config> weight = Config::power(base_of<Config>(load<Config>(activations + key), scale));
    const Ints<Config> is_seen = lane_numbers<Config>() + key < keys;
    weight = is_seen ? weight : Floats<Config>{};
    sum += weight;
    store<Config>(weights + key, weight);
  }
  row.weights += lane_sum<Config>(sum);
  live.count = 0;
  for (int key = 0; key < keys; ++key) {
    live.key[live.count] = key;
    live.weight[live.count] = weights[key];
    live.count += !(weights[key] < least);
  }
}

// outputs += weights times kVectors vectors of columns of the live keys' values, the last of which
// may be half a vector.
template <class Config, int kVectors, bool kIsHalf>
LSSAR_HOST void add_live_columns(const LiveKeys<Config>& live,
                                 const typename Config::Element* values, i64 row_stride,
                                 float* outputs) {
  constexpr int kAhead = 8;  // rows that memory delivers while one is added
  constexpr int kLine = 64 / (int)sizeof(typename Config::Element);
  Floats<Config> acc[kVectors];
  LSSAR_UNROLL
  for (int c = 0; c < kVectors; ++c) acc[c] = load<Config>(outputs + c * Config::kLanes);
  for (int i = 0; i < live.count; ++i) {
    const int later = i + kAhead < live.count ? i + kAhead : live.count - 1;
    LSSAR_UNROLL
    for (int d = 0; d < kVectors * Config::kLanes; d += kLine)
      __builtin_prefetch(values + live.key[later] * row_stride + d);
    const Floats<Config> weight = splat<Config>(live.weight[i]);
    const typename Config::Element* const from = values + live.key[i] * row_stride;
    LSSAR_UNROLL
    for (int c = 0; c + 1 < kVectors; ++c)
      acc[c] = weight * load<Config>(from + c * Config::kLanes) + acc[c];
    acc[kVectors - 1] =
        weight * load<Config, kIsHalf>(from + (kVectors - 1) * Config::kLanes) + acc[kVectors - 1];
  }
  LSSAR_UNROLL
  for (int c = 0; c < kVectors; ++c) store<Config>(outputs + c * Config::kLanes, acc[c]);
}

template <class Config>
LSSAR_HOST void add_live_values(const LiveKeys<Config>& live,
                                const typename Config::Element* values, i64 row_stride,
                                float* outputs) {
  constexpr int kMost = 8;  // accumulators
  constexpr int kCols = kMost * Config::kLanes, kWhole = Config::kHeadDimV / kCols * kCols;
  constexpr int kRest = (Config::kHeadDimV - kWhole + Config::kLanes - 1) / Config::kLanes;
  LSSAR_ROLLED
  for (int col = 0; col < kWhole; col += kCols)
    add_live_columns<Config, kMost, false>(live, values + col, row_stride, outputs + col);
  if constexpr (kRest != 0)
    add_live_columns<Config, kRest, Config::kHeadDimV % Config::kLanes != 0>(
        live, values + kWhole, row_stride, outputs + kWhole);
}

// Rows of a head from place.first_row on, at most `most`.
template <class Config>
LSSAR_HOST void forward_few(const AttentionParams& params, RowPlace place, int most,
                            ForwardScratch<Config>& scratch) {
  using Element = typename Config::Element;
  const i64 queries = seq_q<Config>(params), group = params.heads / params.kv_heads;
  const i64 end = place.first_row + most < queries ? place.first_row + most : queries;
  for (; place.first_row < end; ++place.first_row) {
    RowState row = {};
    row.visible = visible_keys<Config>(params, place.first_row);
    row.largest_score = -infinity();
    float* const scores = few_products<Config>(
        params, place.batch * params.kv_heads + place.kv_head,
        (place.head - place.kv_head * group) * queries + place.first_row);
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, place.first_row),
        scratch.queries);
    if (row.visible != 0)
      activate_row<Config>(scores, query_scale<Config>(squares, row.visible), row);
    prepare_weights<Config>(row);
    for (int d = 0; d < Config::kHeadDimVPadded; ++d) scratch.outputs[d] = 0.0f;
    for (i64 key = 0; key < row.visible; key += Config::kBlockKeys) {
      const i64 left = row.visible - key;
      LiveKeys<Config> live;
      find_live_keys<Config>(scores + key,
                             left < Config::kBlockKeys ? (int)left : Config::kBlockKeys, row, live);
      add_live_values<Config>(
          live, row_pointer<const Element>(params.v, place.batch, place.kv_head, key),
          params.v.row_stride, scratch.outputs);
    }
    store_outputs<Config>(params, place, 1, &row, scratch);
  }
}

}  // namespace lssar_device
