// The forward kernel. A block has a few query rows of one head. Pass 1 sums activations. Pass 2
// turns them into weights and multiplies values by these. The activations of the first keys stay in
// the core's cache between the passes; the others are computed again. For training it also saves
// rows, and X if the backward wants it, for which it multiplies values by U^(p - 1) too.
#pragma once

#include "templates/cpu/forward_output.h"

namespace lssar_device {

// Loads queries times c_i log2(e) / |q_i| as [kRows][head_dim]. Rows past the end see no keys.
template <class Config, int kRows>
LSSAR_HOST void load_queries(const AttentionParams& params, const RowPlace& place, float* queries,
                             RowState (&rows)[kRows]) {
  using Element = typename Config::Element;
  for (int r = 0; r < kRows; ++r) {
    const i64 row = place.first_row + r;
    const bool is_row = row < seq_q<Config>(params);
    float* const query = queries + r * Config::kHeadDim;
    rows[r] = RowState{};
    rows[r].visible = is_row ? visible_keys<Config>(params, row) : 0;
    rows[r].largest_score = -infinity();
    if (rows[r].visible == 0) {
      for (int d = 0; d < Config::kHeadDim; ++d) query[d] = 0.0f;
      continue;
    }
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, row), query);
    const float scale = query_scale<Config>(squares, rows[r].visible);
    for (int d = 0; d < Config::kHeadDim; ++d) query[d] *= scale;
  }
}

// In place of an activation: far below those that there are, so that u is 0 in every row. With an
// activation of 0 and a tiny offset u might round to more than 0.
constexpr float kHidden = -1.0f;

// Computes activations of a panel of keys. kSums: adds them to the rows' sums. kIsMasked: some rows
// may not see all of these keys. What a row does not see gets kHidden and adds nothing.
template <class Config, int kRows, bool kSums, bool kIsMasked>
LSSAR_HOST void activate_panel(const float* queries, const float* panel, i64 first_key,
                               const RowState (&rows)[kRows], float* scores,
                               Floats<Config> (&sum)[kRows], Floats<Config> (&most)[kRows]) {
  Floats<Config> acc[kRows][Config::kPanelVectors];
  multiply_keys<Config, kRows, Config::kHeadDim>(queries, panel, acc);
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const i64 left = rows[r].visible - first_key;
    const int seen = left < 0 ? 0 : left < Config::kPanelKeys ? (int)left : Config::kPanelKeys;
    LSSAR_UNROLL
    for (int c = 0; c < Config::kPanelVectors; ++c) {
      Floats<Config> x = acc[r][c];
      Floats<Config> activation = softplus_bits<Config>(x);
      Floats<Config> term = activation;
      if constexpr (kIsMasked) {
        const Ints<Config> is_seen = lane_numbers<Config>() + c * Config::kLanes < seen;
        x = is_seen ? x : splat<Config>(-infinity());
        term = is_seen ? term : Floats<Config>{};
        activation = is_seen ? activation : splat<Config>(kHidden);
      }
      if constexpr (kSums) {
        sum[r] += term;
        most[r] = larger<Config>(x, most[r]);
      }
      store<Config>(scores + r * Config::kPanelKeys + c * Config::kLanes, activation);
    }
  }
}

// The same for `keys` keys from first_key on, at most kBlockKeys of them.
template <class Config, int kRows, bool kSums>
LSSAR_HOST void activate_block(const AttentionParams& params, const RowPlace& place,
                               const float* queries, i64 first_key, int keys,
                               RowState (&rows)[kRows], float* scores) {
  const i64 slice = place.batch * params.kv_heads + place.kv_head;
  const float* panel = key_panel<Config>(params, slice, first_key / Config::kPanelKeys);
  i64 whole = rows[0].visible;  // keys that all rows see
  for (int r = 1; r < kRows; ++r) whole = rows[r].visible < whole ? rows[r].visible : whole;
  Floats<Config> sum[kRows], most[kRows];
  for (int r = 0; r < kRows; ++r) {
    sum[r] = Floats<Config>{};
    most[r] = splat<Config>(-infinity());
  }
  for (int key = 0; key < keys; key += Config::kPanelKeys) {
    if (first_key + key + Config::kPanelKeys <= whole) {
      activate_panel<Config, kRows, kSums, false>(queries, panel, first_key + key, rows, scores,
                                                  sum, most);
    } else {
      activate_panel<Config, kRows, kSums, true>(queries, panel, first_key + key, rows, scores, sum,
                                                 most);
    }
    panel += Config::kPanelRows * Config::kPanelKeys;
    scores += kRows * Config::kPanelKeys;
  }
  if constexpr (kSums) {
    for (int r = 0; r < kRows; ++r) {
      rows[r].sum += lane_sum<Config>(sum[r]);
      const float score = lane_maximum<Config>(most[r]);
      rows[r].largest_score = score > rows[r].largest_score ? score : rows[r].largest_score;
    }
  }
}

// Derives from a row's sum and largest score how its activations become weights. Dead rows and rows
// without keys have no weights. If a row saw a NaN, its sum is NaN.
template <class Config>
LSSAR_HOST void prepare_weights(RowState& row) {
  if (row.visible == 0) {
    row.largest_score = 0.0f;
    return;
  }
  const double largest =
      softplus_bits<Config>(splat<Config>(row.largest_score))[0];  // computed as in the panels
  row.m = (float)(largest * (double)row.visible / row.sum - row_offset<Config>(row.visible));
  if (!(row.m > kDeadRow)) return;
  row.scale = weight_scale<Config>(row_stats(row), row.visible);
}

// Turns activations of a block of keys into weights, in place, and adds them to the rows' sums.
// kSumsX: also writes u^(p - 1) to `slopes`.
template <class Config, int kRows>
LSSAR_HOST void weigh_block(int keys, RowState (&rows)[kRows], float* scores, float* slopes) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const WeightScale& scale = rows[r].scale;
    Floats<Config> sums[Config::kSumsX ? 2 : 1] = {};  // of weights and slopes
    float* at = scores + r * Config::kPanelKeys;
    for (int key = 0; key < keys; key += Config::kPanelKeys) {
      LSSAR_UNROLL
      for (int c = 0; c < Config::kPanelVectors; ++c) {
        const Floats<Config> activation = load<Config>(at + c * Config::kLanes);
        const Floats<Config> u = larger<Config>(
            (activation - scale.origin) * scale.slope + scale.intercept, Floats<Config>{});
        Floats<Config> weight;
        if constexpr (Config::kSumsX) {
          const Floats<Config> slope = Config::power_slope(u);
          weight = u * slope;
          sums[1] += slope;
          store<Config>(slopes + (at - scores) + c * Config::kLanes, slope);
        } else {
          weight = Config::power(u);
        }
        sums[0] += weight;
        store<Config>(at + c * Config::kLanes, weight);
      }
      at += kRows * Config::kPanelKeys;
    }
    rows[r].weights += lane_sum<Config>(sums[0]);
    if constexpr (Config::kSumsX) rows[r].slopes += lane_sum<Config>(sums[1]);
  }
}

template <class Config, int kRows>
LSSAR_HOST void forward_rows(const AttentionParams& params, const RowPlace& place,
                             ForwardScratch<Config>& scratch) {
  RowState rows[kRows];
  load_queries<Config, kRows>(params, place, scratch.queries, rows);
  i64 visible = 0;  // keys that at least one row sees
  for (int r = 0; r < kRows; ++r) visible = rows[r].visible > visible ? rows[r].visible : visible;
  const auto scores_of = [&](i64 first_key) {
    const i64 kept = first_key < Config::kKeptKeys ? first_key : i64{Config::kKeptKeys};
    return scratch.scores + kept * kRows;
  };
  const auto keys_of = [&](i64 first_key) {
    const i64 left = visible - first_key;
    return left < Config::kBlockKeys ? (int)left : Config::kBlockKeys;
  };
  for (i64 key = 0; key < visible; key += Config::kBlockKeys)
    activate_block<Config, kRows, true>(params, place, scratch.queries, key, keys_of(key), rows,
                                        scores_of(key));
  for (int r = 0; r < kRows; ++r) prepare_weights<Config>(rows[r]);
  for (int i = 0; i < kRows * Config::kHeadDimVPadded; ++i) scratch.outputs[i] = 0.0f;
  float* slopes = nullptr;
  if constexpr (Config::kSumsX) {
    SlopeScratch<Config>& more = slope_scratch<Config>(scratch);
    slopes = more.slopes;
    for (int i = 0; i < kRows * Config::kHeadDimVPadded; ++i) more.outputs[i] = 0.0f;
  }
  for (i64 key = 0; key < visible; key += Config::kBlockKeys) {
    if (key >= Config::kKeptKeys)
      activate_block<Config, kRows, false>(params, place, scratch.queries, key, keys_of(key), rows,
                                           scores_of(key));
    weigh_block<Config, kRows>(keys_of(key), rows, scores_of(key), slopes);
    using Element = typename Config::Element;
    const Element* values = row_pointer<const Element>(params.v, place.batch, place.kv_head, key);
    multiply_values<Config, kRows, Config::kHeadDimV, Config::kPanelKeys, Config::kPanelKeys, 1>(
        scores_of(key), values, params.v.row_stride, keys_of(key), scratch.outputs);
    if constexpr (Config::kSumsX)
      multiply_values<Config, kRows, Config::kHeadDimV, Config::kPanelKeys, Config::kPanelKeys, 1>(
          slopes, values, params.v.row_stride, keys_of(key),
          slope_scratch<Config>(scratch).outputs);
  }
  store_outputs<Config, kRows>(params, place, rows, scratch);
}

// Few rows, as in decoding, are computed one by one, because a full block would compute rows that
// nobody needs. The bits are the same either way.
template <class Config>
LSSAR_HOST void forward(const AttentionParams& params, u32 block, void* memory) {
  ForwardScratch<Config>& scratch = *(ForwardScratch<Config>*)memory;
  const i64 queries = seq_q<Config>(params);
  RowPlace place = query_place<Config, Config::kRows>(params, block);
  if (2 * (queries - place.first_row) >= Config::kRows) {
    forward_rows<Config, Config::kRows>(params, place, scratch);
    return;
  }
  for (; place.first_row < queries; ++place.first_row)
    forward_rows<Config, 1>(params, place, scratch);
}

}  // namespace lssar_device
