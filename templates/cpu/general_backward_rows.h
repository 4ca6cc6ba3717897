// The first step of the backward where the score function is given as expressions: what all scores
// of a query row need, and what the row adds to the gradient of its head's sink.
//
// kNeedsEpsilon: epsilon is a sum over the keys, for which scores and g v are formed here, too.
#pragma once

#include "templates/cpu/gradient_tile.h"

namespace lssar_device {

// The constants without the factor c'_i / r_i, and without epsilon. Zeros for a row without
// gradient.
template <class Config>
LSSAR_HOST RowConstants plain_constants(const RowStats& stats, i64 visible, float score_scale,
                                        float delta) {
  RowConstants c = {};
  if (visible == 0 || stats.zs == 0.0f) return c;
  c.score_scale = score_scale;
  if constexpr (Config::kSecondStage == 0) {
    c.inverse_zs = 1.0f / stats.r;
    c.gain = 1.0f;
  } else {
    c.inverse_zs = 1.0f / stats.zs;
  }
  if constexpr (Config::kSecondStage == 1) {
    float largest = stats.largest_score;
    if constexpr (Config::kIsExponential) largest = Config::kPhiSign;
    c.weights = general_weight_scale<Config>(visible, stats.r, stats.m, largest);
    c.gain = (float)Config::kPower * (float)visible / stats.m;
  }
  if constexpr (Config::kSecondStage == 2) {
    c.weights.slope = psi_scale(visible, stats.r);
    c.gain = (float)visible * c.inverse_zs;
  }
  if constexpr (Config::kIsExponential) {
    c.weights.intercept = -stats.largest_score;
  } else {
    c.weights.intercept = (float)Config::score_bias(visible);
  }
  c.gain_delta = c.gain * delta;
  if (stats.r != stats.r || stats.m != stats.m || stats.zs != stats.zs)
    c.inverse_zs = c.gain = quiet_nan();
  return c;
}

// What the row adds to the gradient of its head's sink: -exp(t_h) / r_i eps_i.
template <class Config>
LSSAR_HOST float sink_term(float logit, i64 visible, const RowStats& stats, float epsilon) {
  if (visible == 0 || stats.zs == 0.0f) return 0.0f;
  if (stats.zs != stats.zs) return quiet_nan();
  const float sink = sink_activation<Config>(logit, visible, stats.largest_score);
  return -epsilon * (sink == infinity() ? 1.0f : sink / stats.r);
}

// Moves what the row sees of a panel to its front, and returns how many keys that are.
template <class Config>
LSSAR_HOST int gather_seen(const VisibleKeys& seen, i64 first_key, float* scores, float* products) {
  int count = 0;
  for (int key = 0; key < Config::kPanelKeys; ++key) {
    scores[count] = scores[key];
    products[count] = products[key];
    count += seen.has(first_key + key);
  }
  return count;
}

// kChangesScores: changes the scores of a few rows.
template <class Config>
LSSAR_HOST void change_tile(const AttentionParams& params, const RowPlace& place, i64 first_key,
                            float* scores) {
  if constexpr (!Config::kChangesScores) return;
  alignas(64) float cap_slopes[Config::kPanelKeys];
  for (int r = 0; r < Config::kRows; ++r)
    change_panel<Config>(alibi_row<Config>(params, place.head, place.first_row + r), first_key,
                         scores + r * Config::kGradKeys, cap_slopes);
}

// The sums of epsilon's terms of a few rows, within windows.
template <class Config>
LSSAR_HOST void sum_window_epsilon(const AttentionParams& params, const RowPlace& place,
                                   const GradientRows<Config::kRows>& rows,
                                   GradientTile<Config>& tile, double (&sums)[Config::kRows]) {
  const i64 slice = place.batch * params.kv_heads + place.kv_head;
  const KeyWalk<Config, Config::kPanelKeys, Config::kPanelKeys> walk(params, place, Config::kRows);
  for (i64 key = walk.first(); key < walk.keys.end; key += walk.step(key)) {
    const float* const panel = key_panel<Config>(params, slice, key / Config::kPanelKeys);
    multiply_panel<Config>(tile, rows, panel, tile.weights, tile.gradients);
    if constexpr (Config::kChangesScores) change_tile<Config>(params, place, key, tile.weights);
    for (int r = 0; r < Config::kRows; ++r) {
      if (rows.visible[r] == 0) continue;
      float* const scores = tile.weights + r * Config::kGradKeys;
      float* const products = tile.gradients + r * Config::kGradKeys;
      const int count = gather_seen<Config>(seen_window<Config>(params, place.first_row + r), key,
                                            scores, products);
      sums[r] += epsilon_sum<Config>(rows.constants[r], rows.visible[r], rows.visible[r] - count,
                                     scores, products);
    }
  }
}

// The sums of epsilon's terms of a few rows, whose constants are written already.
template <class Config>
LSSAR_HOST void sum_epsilon(const AttentionParams& params, const RowPlace& place, int num_rows,
                            GradientTile<Config>& tile, double (&sums)[Config::kRows]) {
  const i64 slice = place.batch * params.kv_heads + place.kv_head;
  GradientRows<Config::kRows> rows;
  load_gradient_rows<Config>(params, place, num_rows, tile, rows);
  if constexpr (Config::kHasWindow)
    return sum_window_epsilon<Config>(params, place, rows, tile, sums);
  for (i64 key = 0; key < rows.most; key += Config::kPanelKeys) {
    const float* const panel = key_panel<Config>(params, slice, key / Config::kPanelKeys);
    multiply_panel<Config>(tile, rows, panel, tile.weights, tile.gradients);
    if constexpr (Config::kChangesScores) change_tile<Config>(params, place, key, tile.weights);
    for (int r = 0; r < Config::kRows; ++r)
      sums[r] += epsilon_sum<Config>(rows.constants[r], rows.visible[r], key,
                                     tile.weights + r * Config::kGradKeys,
                                     tile.gradients + r * Config::kGradKeys);
  }
}

// Epsilon from the sum of its terms. In a row without an offset the power's is 0.
template <class Config>
LSSAR_HOST float epsilon_of(double sum, i64 visible) {
  if constexpr (Config::kSecondStage == 2) return (float)(sum / (double)visible);
  const float offset = row_offset<Config>(visible);
  return offset == 0.0f ? 0.0f : (float)(sum * offset / (double)visible);
}

// Multiplies a row's constants by c'_i / r_i.
template <class Config>
LSSAR_HOST void finish_constants(RowConstants& c, const RowStats& stats, float epsilon) {
  const float grad_scale = c.score_scale * Config::kGradUnit / stats.r;
  c.gain *= grad_scale;
  c.gain_delta *= grad_scale;
  c.epsilon = epsilon * grad_scale;
  if (c.inverse_zs != c.inverse_zs) c.gain = c.epsilon = quiet_nan();
}

// At most kRows rows from place.first_row on.
template <class Config>
LSSAR_HOST void write_constants(const AttentionParams& params, const RowPlace& place, int num_rows,
                                GradientTile<Config>& tile) {
  using Element = typename Config::Element;
  float delta[Config::kRows];
  double sums[Config::kRows] = {};
  const i64 first = flat_row<Config>(params, place, place.first_row);
  for (int r = 0; r < num_rows; ++r) {
    const i64 row = place.first_row + r, visible = visible_keys<Config>(params, row);
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, row), tile.queries);
    load_row<Config, Config::kHeadDimV>(
        row_pointer<const Element>(params.grad_o, place.batch, place.head, row), tile.grads);
    delta[r] = output_dot<Config>(
        params, tile.grads, row_pointer<const Element>(params.o, place.batch, place.head, row),
        first + r);
    const float scale = visible == 0 ? 0.0f : general_score_scale<Config>(squares, visible);
    *row_constants(params, first + r) =
        plain_constants<Config>(load_stats<Config>(params, first + r), visible, scale, delta[r]);
  }
  if constexpr (Config::kNeedsEpsilon) sum_epsilon<Config>(params, place, num_rows, tile, sums);
  for (int r = 0; r < num_rows; ++r) {
    const i64 visible = visible_keys<Config>(params, place.first_row + r);
    const RowStats stats = load_stats<Config>(params, first + r);
    RowConstants& c = *row_constants(params, first + r);
    float epsilon = 0.0f;
    if (c.inverse_zs != 0.0f) {
      if constexpr (Config::kNeedsEpsilon) {
        epsilon = epsilon_of<Config>(sums[r], visible);
      } else if constexpr (Config::kSecondStage == 0) {
        epsilon = delta[r];
      }
      finish_constants<Config>(c, stats, epsilon);
    }
    if constexpr (Config::kHasSink)
      params.sink_terms[first + r] =
          sink_term<Config>(params.sink[place.head], visible, stats, epsilon);
  }
}

template <class Config>
LSSAR_HOST void general_backward_rows(const AttentionParams& params, u32 block, void* memory) {
  GradientTile<Config>& tile = *(GradientTile<Config>*)memory;
  RowPlace place = query_place<Config, Config::kGradRows>(params, block);
  const i64 past = place.first_row + Config::kGradRows, queries = seq_q<Config>(params);
  const i64 end = past < queries ? past : queries;
  for (; place.first_row < end; place.first_row += Config::kRows) {
    const i64 left = end - place.first_row;
    write_constants<Config>(params, place, left < Config::kRows ? (int)left : Config::kRows, tile);
  }
}

}  // namespace lssar_device
