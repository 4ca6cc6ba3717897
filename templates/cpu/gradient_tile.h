// A tile of the backward: the weights and gradients of some scores. The kernel of dq, and that of
// dk and dv, multiply rows by them.
//
//   M_ij = u_ij^p / zs_i
//   dS''_ij = dS_ij c'_i / |k_j|,   dS_ij c'_i = (u_ij^(p-1) / zs_i (gain D_ij - gain_delta) -
//                                                epsilon) sigmoid(S_ij)
//
// Scores are the forward's to the bit: where N P - b cancels, a weight depends on their last bits.
#pragma once

#include "templates/cpu/general_gradient.h"
#include "templates/cpu/key_walk.h"
#include "templates/cpu/lockstep.h"
#include "templates/cpu/product.h"

namespace lssar_device {

template <class Config>
struct GradientTile {
  // [kGradRows][kGradKeys]; 0 where a row does not see a key.
  alignas(64) float weights[Config::kGradRows * Config::kGradKeys];    // M
  alignas(64) float gradients[Config::kGradRows * Config::kGradKeys];  // dS''
  // The kRows rows that are multiplied together.
  alignas(64) float queries[Config::kRows * Config::kHeadDim];
  alignas(64) float grads[Config::kRows * Config::kHeadDimV];
};

// What else there is of these rows.
template <int kRows>
struct GradientRows {
  RowConstants constants[kRows];
  i64 visible[kRows];  // 0 for rows past the end and rows without gradient
  i64 most, least;     // visible of any row
};

template <class Config>
LSSAR_HOST void load_gradient_rows(const AttentionParams& params, const RowPlace& place, int count,
                                   GradientTile<Config>& tile, GradientRows<Config::kRows>& rows) {
  using Element = typename Config::Element;
  const i64 first_flat = flat_row<Config>(params, place, place.first_row);
  rows.most = 0;
  rows.least = seq_k<Config>(params);
  for (int r = 0; r < Config::kRows; ++r) {
    float* const query = tile.queries + r * Config::kHeadDim;
    float* const g = tile.grads + r * Config::kHeadDimV;
    rows.constants[r] = r < count ? *row_constants(params, first_flat + r) : RowConstants{};
    // NOTE: it is not 0 if it is NaN.
    const bool has_gradient = rows.constants[r].inverse_zs != 0.0f;
    rows.visible[r] = has_gradient ? visible_keys<Config>(params, place.first_row + r) : 0;
    if (rows.visible[r] > rows.most) rows.most = rows.visible[r];
    if (rows.visible[r] < rows.least) rows.least = rows.visible[r];
    if (!has_gradient) {
      for (int d = 0; d < Config::kHeadDim; ++d) query[d] = 0.0f;
      for (int d = 0; d < Config::kHeadDimV; ++d) g[d] = 0.0f;
      continue;
    }
    const i64 row = place.first_row + r;
    load_row_factors<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, row), query);
    scale_query<Config>(rows.constants[r].score_scale, query);
    load_row_factors<Config, Config::kHeadDimV>(
        row_pointer<const Element>(params.grad_o, place.batch, place.head, row), g);
  }
}

// Products of the tile's rows with a panel, to parts of the tile: scores, and g v.
template <class Config>
LSSAR_HOST void multiply_panel(const GradientTile<Config>& tile,
                               const GradientRows<Config::kRows>& rows, const float* panel,
                               float* scores, float* products) {
  Floats<Config> acc[Config::kRows][Config::kPanelVectors];
  multiply_keys<Config, Config::kRows, Config::kHeadDim>(tile.queries, panel, acc);
  if constexpr (Config::kHasPairs)
    scale_products<Config>(
        panel, [&](int r) LSSAR_WIDE { return rows.constants[r].score_scale; }, acc);
  store_tile<Config, Config::kGradKeys>(scores, acc);
  multiply_keys<Config, Config::kRows, Config::kHeadDimV>(
      tile.grads, panel + steps_of<Config>(Config::kHeadDim) * Config::kPanelKeys, acc);
  store_tile<Config, Config::kGradKeys>(products, acc);
}

// What rows do not see of a panel becomes 0.
template <class Config>
LSSAR_HOST void hide_panel(const GradientRows<Config::kRows>& rows, i64 first_key, float* weights,
                           float* gradients) {
  for (int r = 0; r < Config::kRows; ++r) {
    const i64 left = rows.visible[r] - first_key;
    for (int key = left < 0 ? 0 : (int)left; key < Config::kPanelKeys; ++key)
      weights[r * Config::kGradKeys + key] = gradients[r * Config::kGradKeys + key] = 0.0f;
  }
}

// The same within windows. `first_row`: the first of the rows.
template <class Config>
LSSAR_HOST void hide_panel_outside(const AttentionParams& params, i64 first_row,
                                   const GradientRows<Config::kRows>& rows, i64 first_key,
                                   float* weights, float* gradients) {
  const bool is_whole =
      common_keys<Config>(params, first_row, Config::kRows).has_all(first_key, Config::kPanelKeys);
  if (is_whole && rows.least != 0) return;
  for (int r = 0; r < Config::kRows; ++r) {
    const bool is_hidden = rows.visible[r] == 0;
    const VisibleKeys seen =
        is_hidden ? VisibleKeys{0, 0, 0} : seen_window<Config>(params, first_row + r);
    for_each_hidden<Config>(seen, first_key, [&](int key) {
      weights[r * Config::kGradKeys + key] = gradients[r * Config::kGradKeys + key] = 0.0f;
    });
  }
}

// Turns scores into M, and D into dS'', in place.
template <class Config>
LSSAR_HOST void differentiate_panel(const GradientRows<Config::kRows>& rows, const float* panel,
                                    float* weights, float* gradients) {
  const float* const norms = panel_norms<Config>(panel);
  constexpr int kVectors = Config::kPanelVectors, kTile = Config::kRows * kVectors;
  constexpr int kCount = vectors_at_once<Config>(Config::kRows, kVectors);
  LSSAR_ROLLED
  for (int first = 0; first < kTile; first += kCount) {
    Floats<Config> x[kCount], exponential[kCount], softplus[kCount];
    const auto place = [&](int i) {
      return (first + i) / kVectors * Config::kGradKeys + (first + i) % kVectors * Config::kLanes;
    };
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = load<Config>(weights + place(i));
    exp2_of_minus_abs<Config>(x, exponential);
    softplus_from<Config>(x, exponential, softplus);
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const RowConstants& row = rows.constants[(first + i) / kVectors];
      const Floats<Config> distance = softplus[i] - splat<Config>(row.weights.origin);
      // A NaN stays, because it comes second.
      const Floats<Config> u =
          larger<Config>(Floats<Config>{}, distance * row.weights.slope + row.weights.intercept);
      const Floats<Config> slope = Config::power_slope(u) * row.inverse_zs;
      const Floats<Config> d = load<Config>(gradients + place(i));
      store<Config>(weights + place(i), u * slope);
      store<Config>(gradients + place(i),
                    (slope * (row.gain * d - row.gain_delta) - row.epsilon) *
                        sigmoid_from<Config>(x[i], exponential[i]) *
                        load<Config>(norms + (first + i) % kVectors * Config::kLanes));
    }
  }
}

// Whether one of kRows rows sees a key of the panel.
template <class Config>
LSSAR_HOST bool sees_panel(const AttentionParams& params, i64 first_row, i64 first_key) {
  return seen_by_some<Config>(params, first_row, Config::kRows)
      .has_some(first_key, Config::kPanelKeys);
}

template <class Config>
LSSAR_HOST void clear_panel(float* to) {
  for (int r = 0; r < Config::kRows; ++r)
    for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes)
      store<Config>(to + r * Config::kGradKeys + c, Floats<Config>{});
}

// Computes the tile of `num_rows` rows from place.first_row on, at most kGradRows, and kGradKeys
// keys from first_key on. Its panels must exist as far as a row sees keys.
template <class Config>
LSSAR_CALLED void fill_tile(const AttentionParams& params, RowPlace place, int num_rows,
                            i64 first_key, GradientTile<Config>& tile) {
  const i64 slice = place.batch * params.kv_heads + place.kv_head;
  for (int group = 0; group < num_rows; group += Config::kRows) {
    GradientRows<Config::kRows> rows;
    load_gradient_rows<Config>(params, place, num_rows - group, tile, rows);
    for (int key = 0; key < Config::kGradKeys; key += Config::kPanelKeys) {
      float* const weights = tile.weights + group * Config::kGradKeys + key;
      float* const gradients = tile.gradients + group * Config::kGradKeys + key;
      if (Config::kHasWindow ? !sees_panel<Config>(params, place.first_row, first_key + key)
                             : first_key + key >= rows.most) {
        clear_panel<Config>(weights);
        clear_panel<Config>(gradients);
        continue;
      }
      const float* const panel =
          key_panel<Config>(params, slice, (first_key + key) / Config::kPanelKeys);
      multiply_panel<Config>(tile, rows, panel, weights, gradients);
      if constexpr (Config::kChangesScores) {
        for (int r = 0; r < Config::kRows; ++r)
          changed_differentiate<Config>(alibi_row<Config>(params, place.head, place.first_row + r),
                                        rows.constants[r], rows.visible[r], first_key + key,
                                        panel_norms<Config>(panel), weights + r * Config::kGradKeys,
                                        gradients + r * Config::kGradKeys);
      } else if constexpr (Config::kIsGeneral) {
        const float* const norms = panel_norms<Config>(panel);
        for (int r = 0; r < Config::kRows; ++r)
          general_differentiate<Config>(rows.constants[r], rows.visible[r], first_key + key, norms,
                                        weights + r * Config::kGradKeys,
                                        gradients + r * Config::kGradKeys);
      } else {
        differentiate_panel<Config>(rows, panel, weights, gradients);
        if (!Config::kHasWindow && first_key + key + Config::kPanelKeys > rows.least)
          hide_panel<Config>(rows, first_key + key, weights, gradients);
      }
      if constexpr (Config::kHasWindow)
        hide_panel_outside<Config>(params, place.first_row, rows, first_key + key, weights,
                                   gradients);
    }
    place.first_row += Config::kRows;
  }
}

// kHasPairs: whether one of kRows rows sees so few keys that its gradients must not be rounded.
// They may sum to zero: if its keys are equal, nothing else would be left of its dq.
template <class Config>
LSSAR_HOST bool some_see_few_keys(const AttentionParams& params, i64 first_row) {
  constexpr i64 kFew = 3;
  if constexpr (!Config::kHasWindow) return visible_keys<Config>(params, first_row) <= kFew;
  const i64 end = least_of(first_row + Config::kRows, seq_q<Config>(params));
  for (i64 row = first_row; row < end; ++row)
    if (visible_keys<Config>(params, row) <= kFew) return true;
  return false;
}

// kHasPairs: rounds the gradients of kRows rows, in place. A row's pairs begin where it begins.
template <class Config>
LSSAR_HOST void pair_gradients(float* gradients) {
  for (int r = 0; r < Config::kRows; ++r) {
    float* const row = gradients + r * Config::kGradKeys;
    for (int key = 0; key < Config::kGradKeys; key += Config::kLanes)
      store_rounded<Config>(row + key / 2, load<Config>(row + key));
  }
}

// add_keys with gradients, or with pairs of them.
template <class Config, bool kArePairs>
LSSAR_HOST void multiply_tile_keys(const AttentionParams& params, i64 first_row, i64 first_key,
                                   const float* gradients, const typename Config::Element* keys,
                                   float* sums) {
  constexpr int kTileKeys = Config::kGradKeys;
  if constexpr (Config::kHasWindow) {
    multiply_seen_values<Config, Config::kRows, Config::kHeadDim, kTileKeys, kTileKeys, kArePairs>(
        seen_by_some<Config>(params, first_row, Config::kRows), first_key, gradients, keys,
        params.k.row_stride, kTileKeys, sums);
  } else {
    const i64 last = least_of(first_row + Config::kRows, seq_q<Config>(params)) - 1;
    const int steps = (int)bounded(visible_keys<Config>(params, last) - first_key, 0, kTileKeys);
    multiply_values<Config, Config::kRows, Config::kHeadDim, kTileKeys, kTileKeys, 1, kArePairs>(
        gradients, keys, params.k.row_stride, steps, sums);
  }
}

// sums += gradients * keys, for kRows rows from first_row on and the keys of a tile that they see.
// Rows past the end are left out. `keys` points to the tile's first key, first_key. Overwrites the
// gradients.
template <class Config>
LSSAR_HOST void add_keys(const AttentionParams& params, i64 first_row, i64 first_key,
                         float* gradients, const typename Config::Element* keys, float* sums) {
  if constexpr (Config::kHasPairs) {
    if (!some_see_few_keys<Config>(params, first_row)) {
      pair_gradients<Config>(gradients);
      multiply_tile_keys<Config, true>(params, first_row, first_key, gradients, keys, sums);
      return;
    }
  }
  multiply_tile_keys<Config, false>(params, first_row, first_key, gradients, keys, sums);
}

// Writes the part of a row of sums that is perpendicular to the row's own vector x:
// a - x^ (x^ a), x^ = x / |x|. For a row without a gradient it writes all of a. Such a row's sums
// are 0, but its x may be NaN.
//
// Without kHasNorms it writes all of a for every row.
template <class Config>
LSSAR_HOST void store_projected(const typename Config::Element* x, const float* sums,
                                bool has_gradient, typename Config::Element* to) {
  constexpr int kDim = Config::kHeadDim;
  constexpr int kWhole = kDim / Config::kLanes * Config::kLanes;
  if (!Config::kHasNorms || !has_gradient) {
    for (int d = 0; d < kWhole; d += Config::kLanes) store<Config>(to + d, load<Config>(sums + d));
    if constexpr (kWhole != kDim) store<Config, true>(to + kWhole, load<Config>(sums + kWhole));
    return;
  }
  alignas(64) float row[Config::kHeadDim];
  const float inverse = inverse_norm<Config>(load_row<Config, kDim>(x, row));
  Floats<Config> products = {};
  for (int d = 0; d < kWhole; d += Config::kLanes)
    products = load<Config>(row + d) * load<Config>(sums + d) + products;
  if constexpr (kWhole != kDim)
    products = load<Config, true>(row + kWhole) * load<Config>(sums + kWhole) + products;
  const float dot = lane_sum<Config>(products) * inverse * inverse;
  for (int d = 0; d < kWhole; d += Config::kLanes)
    store<Config>(to + d, load<Config>(sums + d) - dot * load<Config>(row + d));
  if constexpr (kWhole != kDim)
    store<Config, true>(to + kWhole,
                        load<Config>(sums + kWhole) - dot * load<Config, true>(row + kWhole));
}

}  // namespace lssar_device
