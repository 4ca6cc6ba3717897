// What all scores of a query row need in the backward.
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

// sum_c g[c] o[c] of a saved row, with o as it was before it was rounded.
template <class Config>
LSSAR_HOST float output_dot(const AttentionParams& params, const float* g,
                            const typename Config::Element* o, i64 saved_row) {
  const float sum = row_dot<Config>(g, o);
  if constexpr (!Config::kSavesO) return sum;
  return sum + row_dot<Config>(g, (const Bf16*)params.saved_o + saved_row * Config::kHeadDimV);
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

}  // namespace lssar_device
