// Weights and gradients of scores in the backward, where the score function is given as
// expressions.
//
//   dS''_ij = phi'(s_ij) (dP'_ij - t'_ij epsilon_i) / |k_j|,  t' = 0, 1 or sgn(a_ij) by
//                                                             kActivationSum
//   dP'_ij, the gradient of P times c'_i / r_i:
//     no second stage  gain D_ij
//     power            u^(p-1) / zs (gain D_ij - gain_delta)
//     psi              psi'(N P_ij) (gain D_ij - t_ij gain_delta),   t by kWeightSum
//
// RowConstants hold, beside what the names say:
//
//   score_scale        c'_i in the units of phi
//   weights.slope      psi: N / r
//   weights.intercept  the term that is added to scores; that of u is 1, or 0 without an offset
//   inverse_zs         1 / r without a second stage; psi: 1 / z. 0: the row has no gradient
#pragma once

#include "templates/cpu/changed_scores.h"
#include "templates/cpu/general_scale.h"
#include "templates/cpu/row_constants.h"

namespace lssar_device {

// Scores of some keys, and D of the same, with what all of a row's scores share.
template <class Config>
struct ScoreGradient {
  const RowConstants& row;
  i64 visible;

  LSSAR_HOST WeightScale scale() const {
    const float intercept = row_offset<Config>(visible) == 0.0f ? 0.0f : 1.0f;
    return {row.weights.origin, row.weights.slope, intercept};
  }

  // dP' of activations, and their weights.
  LSSAR_HOST Floats<Config> of_probs(Floats<Config> activation, Floats<Config> d,
                                     Floats<Config>& weight) const {
    if constexpr (Config::kSecondStage == 0) {
      weight = activation * row.inverse_zs;
      return d * row.gain;
    } else if constexpr (Config::kSecondStage == 1) {
      const Floats<Config> u = general_base<Config>(activation, scale());
      const Floats<Config> slope = Config::power_slope(u) * row.inverse_zs;
      weight = u * slope;
      return slope * (row.gain * d - row.gain_delta);
    } else {
      Floats<Config> slope;
      const Floats<Config> y = Config::psi_and_slope(activation * row.weights.slope,
                                                     splat<Config>(row_offset<Config>(visible)),
                                                     splat<Config>((float)visible), slope);
      weight = y * row.inverse_zs;
      Floats<Config> gradient = row.gain * d;
      if constexpr (Config::kWeightSum == 1) gradient = row.gain * d - row.gain_delta;
      if constexpr (Config::kWeightSum == 2)
        gradient = row.gain * d - row.gain_delta * sign_of<Config>(y);
      return slope * gradient;
    }
  }

  // dS'' |k_j|.
  LSSAR_HOST Floats<Config> of_scores(Floats<Config> x, Floats<Config> d,
                                      Floats<Config>& weight) const {
    Floats<Config> slope;
    const Floats<Config> a = Config::phi_and_slope(x + row.weights.intercept, slope);
    Floats<Config> gradient = of_probs(a, d, weight);
    if constexpr (Config::kActivationSum == 1) gradient -= row.epsilon;
    if constexpr (Config::kActivationSum == 2) gradient -= row.epsilon * sign_of<Config>(a);
    return gradient * slope;
  }

  // The term P_ij dP'_ij of epsilon's sum. For the power only the offset's part (docs/math.md),
  // without b / N. For psi without 1 / N.
  LSSAR_HOST Floats<Config> epsilon_term(Floats<Config> x, Floats<Config> d) const {
    Floats<Config> weight;
    const Floats<Config> a = Config::phi(x + row.weights.intercept);
    const Floats<Config> gradient = of_probs(a, d, weight);
    return Config::kSecondStage == 2 ? a * row.weights.slope * gradient : gradient;
  }
};

// Turns a row's scores of a panel into M, and D into dS'', in place. `norms`: the keys' 1 / |k|.
//
// kHasWindow: the caller hides what the row does not see.
template <class Config>
LSSAR_CALLED void general_differentiate(const RowConstants& row, i64 visible, i64 first_key,
                                        const float* norms, float* weights, float* gradients) {
  const RowConstants known = row;
  const ScoreGradient<Config> of_row = {known, visible};
  LSSAR_UNROLL
  for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes) {
    const Ints<Config> is_seen = seen_lanes<Config>(
        Config::kHasWindow ? Config::kPanelKeys - c : visible - first_key - c);
    Floats<Config> weight;
    const Floats<Config> gradient =
        of_row.of_scores(load<Config>(weights + c), load<Config>(gradients + c), weight) *
        load<Config>(norms + c);
    store<Config>(weights + c, is_seen ? weight : Floats<Config>{});
    store<Config>(gradients + c, is_seen ? gradient : Floats<Config>{});
  }
}

// kChangesScores: the same of scores before their changes.
template <class Config>
LSSAR_HOST void changed_differentiate(const AlibiRow& alibi, const RowConstants& row, i64 visible,
                                      i64 first_key, const float* norms, float* weights,
                                      float* gradients) {
  alignas(64) float cap_slopes[Config::kPanelKeys];
  change_panel<Config>(alibi, first_key, weights, cap_slopes);
  general_differentiate<Config>(row, visible, first_key, norms, weights, gradients);
  apply_cap_slopes<Config>(cap_slopes, gradients);
}

// The sum of epsilon's terms over a panel.
template <class Config>
LSSAR_CALLED float epsilon_sum(const RowConstants& row, i64 visible, i64 first_key,
                               const float* scores, const float* products) {
  const ScoreGradient<Config> of_row = {row, visible};
  Floats<Config> sum = {};
  LSSAR_UNROLL
  for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes) {
    const Floats<Config> term =
        of_row.epsilon_term(load<Config>(scores + c), load<Config>(products + c));
    sum += seen_lanes<Config>(visible - first_key - c) ? term : Floats<Config>{};
  }
  return lane_sum<Config>(sum);
}

}  // namespace lssar_device
