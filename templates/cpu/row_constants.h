// The first step of the backward computes what all scores of a query row need.
//
//   delta_i = g_i o_i (o in float),  eps_i = p b_i g_i X_i
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// Here c'_i = c_i / |q_i|. A row without gradient (dead, or without keys) is all zeros. A row whose
// statistics are NaN has NaN in inverse_zs, gain and epsilon.
struct RowConstants {
  float score_scale;  // c'_i log2(e)
  WeightScale weights;
  float inverse_zs;
  float gain;        // p N_i c'_i / (m_i R_i)
  float gain_delta;  // gain delta_i
  float epsilon;     // eps_i c'_i / R_i
};
static_assert(sizeof(RowConstants) == 32, "row_constants of AttentionParams");

LSSAR_HOST RowConstants* row_constants(const AttentionParams& params, i64 flat) {
  return (RowConstants*)params.row_constants + flat;
}

// sum_c g[c] x[c] over a row of kHeadDimV numbers; g is as load_row leaves it.
template <class Config, class X>
LSSAR_HOST float row_dot(const float* g, const X* x) {
  constexpr int kWhole = Config::kHeadDimV / Config::kLanes * Config::kLanes;
  Floats<Config> sum = {};
  for (int d = 0; d < kWhole; d += Config::kLanes)
    sum = load<Config>(g + d) * load<Config>(x + d) + sum;
  if constexpr (kWhole != Config::kHeadDimV)
    sum = load<Config, true>(g + kWhole) * load<Config, true>(x + kWhole) + sum;
  return lane_sum<Config>(sum);
}

template <class Config>
LSSAR_HOST RowConstants make_row_constants(const RowStats& row, i64 visible, float score_scale,
                                           float delta, float g_x) {
  const float grad_scale = score_scale * (float)kLn2 / row.r;  // c'_i / R_i
  RowConstants c;
  c.score_scale = score_scale;
  c.weights = weight_scale<Config>(row, visible);
  c.inverse_zs = 1.0f / row.zs;
  c.gain = (float)Config::kPower * (float)visible / row.m * grad_scale;
  c.gain_delta = c.gain * delta;
  c.epsilon = (float)Config::kPower * row_offset<Config>(visible) * g_x * grad_scale;
  if (row.r != row.r || row.m != row.m || row.zs != row.zs)
    c.inverse_zs = c.gain = c.epsilon = quiet_nan();
  return c;
}

template <class Config>
LSSAR_HOST void backward_rows(const AttentionParams& params, u32 block, void* /*scratch*/) {
  using Element = typename Config::Element;
  const i64 queries = seq_q<Config>(params);
  const RowPlace place = query_place<Config, Config::kConstantRows>(params, block);
  const i64 end = place.first_row + Config::kConstantRows;
  for (i64 row = place.first_row; row < end && row < queries; ++row) {
    const i64 flat = flat_row<Config>(params, place, row);
    const RowStats stats = load_stats<Config>(params, flat);
    const i64 visible = visible_keys<Config>(params, row);
    *row_constants(params, flat) = RowConstants{};
    if (visible == 0 || stats.zs == 0.0f) continue;
    alignas(64) float query[Config::kHeadDim];
    alignas(64) float g[Config::kHeadDimV];
    const float squares = load_row<Config, Config::kHeadDim>(
        row_pointer<const Element>(params.q, place.batch, place.head, row), query);
    load_row<Config, Config::kHeadDimV>(
        row_pointer<const Element>(params.grad_o, place.batch, place.head, row), g);
    const float delta = row_dot<Config>(g, params.saved_o + flat * Config::kHeadDimV);
    float g_x = 0.0f;
    if constexpr (Config::kNeedsX) {
      using SavedX = typename Config::SavedX;
      g_x = row_dot<Config>(g, (const SavedX*)params.saved_x + flat * Config::kHeadDimV);
    }
    *row_constants(params, flat) = make_row_constants<Config>(
        stats, visible, query_scale<Config>(squares, visible), delta, g_x);
  }
}

}  // namespace lssar_device
