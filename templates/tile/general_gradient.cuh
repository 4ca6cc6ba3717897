// One score of the backward, where the score function is given as expressions.
//
//   dS'_ij = phi'(s_ij) (dP'_ij - t'_ij epsilon_i),   t' = 0, 1 or sgn(a_ij) by kActivationSum
//   dP'_ij, the gradient of P times c'_i / r_i:
//     no second stage  gain D_ij
//     power            base^(p-1) (gain D_ij - gain_delta)
//     psi              psi'(N P_ij) (gain D_ij - t_ij gain_delta),   t by kWeightSum
//
// RowConstants then hold other things than for softplus:
//
//   limits           the bits of the term that is added to products times score_scale
//   slope            1 / r;  power: with root, see weight_base;  psi: N / r.  0: no gradient
//   intercept        power: with root;  psi: 1 / z;  fused: a second score_scale
//   gain             c' / r, times p N root / m (power) or N / z (psi)
//   inverse_epsilon  power: the origin of its weights;  psi: N
#pragma once

#include "templates/tile/changed_scores.cuh"
#include "templates/tile/expression_math.cuh"
#include "templates/tile/row_constants.cuh"

namespace lssar_device {

// dP' of an activation, and its weight.
template <class Config>
LSSAR_DEVICE float general_prob_gradient(float activation, float d, const RowConstants& row,
                                         float& weight) {
  if constexpr (Config::kSecondStage == 0) {
    weight = activation * row.slope;
    return row.gain * d;
  } else if constexpr (Config::kSecondStage == 1) {
    const float base = fma_saturate(activation - row.inverse_epsilon, row.slope, row.intercept);
    const float slope = Config::power_slope(base);
    weight = base * slope;
    return slope * fma(row.gain, d, -row.gain_delta);
  } else {
    const float length = row.inverse_epsilon;
    float slope;
    const float y =
        Config::psi_and_slope(activation * row.slope, row_offset<Config>(length), length, slope);
    weight = y * row.intercept;
    float delta = 0.0f;
    if constexpr (Config::kWeightSum == 1) delta = row.gain_delta;
    if constexpr (Config::kWeightSum == 2) delta = row.gain_delta * sign_of(y);
    return slope * fma(row.gain, d, -delta);
  }
}

LSSAR_DEVICE float shift_of(const RowConstants& row) { return float_from_bits(row.limits); }

// The argument of phi, from a product times score_scale and norms. It has the same bits as in
// the forward.
template <class Config>
LSSAR_DEVICE float shifted_score(float x, const RowConstants& row) {
  if constexpr (Config::kFusesScale) return fma(x, row.intercept, shift_of(row));
  return add_rounded(x, shift_of(row));
}

// x: a product times score_scale and norms; d: D_ij. As weight_and_gradient.
template <class Config, bool kKeepsNan>
LSSAR_DEVICE void general_weight_and_gradient(float x, float d, const RowConstants& row,
                                              float& weight, float& grad) {
  float activation_slope;
  const float a = Config::phi_and_slope(shifted_score<Config>(x, row), activation_slope);
  float prob_gradient = general_prob_gradient<Config>(a, d, row, weight);
  if constexpr (Config::kActivationSum == 1) prob_gradient -= row.epsilon;
  if constexpr (Config::kActivationSum == 2) prob_gradient -= row.epsilon * sign_of(a);
  const bool has_gradient = row.slope != 0.0f;
  if constexpr (kKeepsNan) weight = fma(row.gain, 0.0f, weight);
  weight = has_gradient ? weight * kWeightRange<Config> : 0.0f;
  grad = has_gradient ? prob_gradient * activation_slope : 0.0f;
}

// kChangesScores: the same of a score before its changes.
template <class Config, bool kKeepsNan>
LSSAR_DEVICE void changed_weight_and_gradient(float x, const AlibiTerm& alibi, float d,
                                              const RowConstants& row, float& weight, float& grad) {
  float cap_slope = 1.0f;
  if constexpr (Config::kHasSoftCap) x = Config::soft_cap_and_slope(x, cap_slope);
  if constexpr (Config::kHasAlibi) x = alibi.add_to(x);
  general_weight_and_gradient<Config, kKeepsNan>(x, d, row, weight, grad);
  // A row without gradient may have read a NaN.
  if constexpr (Config::kHasSoftCap) grad = grad == 0.0f ? 0.0f : grad * cap_slope;
}

// The term P_ij dP'_ij of epsilon's sum (tile/epsilon_sum.cuh). For the power only the offset's
// part, without b / N. For psi without 1 / N. These factors multiply the sum.
template <class Config>
LSSAR_DEVICE float general_epsilon_term(float x, float d, const RowConstants& row) {
  float weight;
  const float a = Config::phi(shifted_score<Config>(x, row));
  const float prob_gradient = general_prob_gradient<Config>(a, d, row, weight);
  if (row.slope == 0.0f) return 0.0f;
  return Config::kSecondStage == 2 ? a * row.slope * prob_gradient : prob_gradient;
}

}  // namespace lssar_device
