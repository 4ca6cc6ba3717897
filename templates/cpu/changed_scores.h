// What changes scores between their scale and phi, in the units of phi: first the soft cap, then
// ALiBi. templates/tile/changed_scores.cuh has the same for GPUs.
//
// kHasSoftCap:    Config::soft_cap, and with its derivative Config::soft_cap_and_slope.
// kHasAlibi:      row i stands at position i + Lk - Lq among the keys. Slopes of heads are the
//                 call's, times -kScoreUnit.
// kChangesScores: one of them, or both.
#pragma once

#include "templates/cpu/expression_math.h"
#include "templates/cpu/rows.h"

namespace lssar_device {

// How the scores of a row fall, or rise, with the distance of a key from the row's position.
struct AlibiRow {
  float slope;
  i64 position;  // counted from the call's first key

  // What is added to the scores of kLanes keys from first_key on. The distance is exact up to 2^24.
  template <class Config>
  LSSAR_HOST Floats<Config> of_keys(i64 first_key) const {
    const Floats<Config> lanes = __builtin_convertvector(lane_numbers<Config>(), Floats<Config>);
    return slope * absolute<Config>((float)(position - first_key) - lanes);
  }
};

// Slopes are in the argument's field of X, which problems with ALiBi do not save.
template <class Config>
LSSAR_HOST AlibiRow alibi_row(const AttentionParams& params, i64 head, i64 row) {
  if constexpr (!Config::kHasAlibi) return {0.0f, 0};
  const i64 shift = Config::kIsRange ? params.query_shift - params.first_key
                                     : seq_k<Config>(params) - seq_q<Config>(params);
  return {((const float*)params.saved_x)[head] * -Config::kScoreUnit, row + shift};
}

// Changes a row's scores of a panel in place, and writes the derivatives of the soft cap.
template <class Config>
LSSAR_CALLED void change_panel(const AlibiRow& alibi, i64 first_key, float* scores,
                               float* cap_slopes) {
  LSSAR_UNROLL
  for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes) {
    Floats<Config> x = load<Config>(scores + c), slope = splat<Config>(1.0f);
    if constexpr (Config::kHasSoftCap) x = Config::soft_cap_and_slope(x, slope);
    if constexpr (Config::kHasAlibi) x += alibi.of_keys<Config>(first_key + c);
    store<Config>(scores + c, x);
    store<Config>(cap_slopes + c, slope);
  }
}

// Multiplies a row's gradients of a panel. A gradient of 0 stays, because its key may be NaN.
template <class Config>
LSSAR_HOST void apply_cap_slopes(const float* cap_slopes, float* gradients) {
  if constexpr (!Config::kHasSoftCap) return;
  LSSAR_UNROLL
  for (int c = 0; c < Config::kPanelKeys; c += Config::kLanes) {
    const Floats<Config> gradient = load<Config>(gradients + c);
    store<Config>(gradients + c,
                  gradient == 0.0f ? gradient : gradient * load<Config>(cap_slopes + c));
  }
}

}  // namespace lssar_device
