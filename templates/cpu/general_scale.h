// What the forward and the backward of a score function given as expressions compute alike for a
// row. docs/math.md has the classes of score functions.
//
// kActivationSum: r is 0 no sum, 1 sum_j a_ij, 2 sum_j |a_ij|.
// kSecondStage:   0 none, 1 the power of the re-weighting, 2 psi.
// kWeightSum:     z of psi, as kActivationSum.
// kDivisorSum:    the divisor of o: as kActivationSum, but a sum of weights.
// kIsExponential: phi is an exponential over a sum; the row's largest score is taken out, and the
//                 bias with it. Scores are in bits.
// kHasPassOne:    a pass over the keys comes first and finds r, which weights need. Without it,
//                 weights are activations, and r divides at the end.
// kHasSink:       r includes the sink of the row's head: a logit t_h that adds exp(t_h).
#pragma once

#include "templates/cpu/expression_math.h"
#include "templates/cpu/product.h"

namespace lssar_device {

// c_i / |q_i| in the units of phi, by which a query is multiplied before its products.
template <class Config>
LSSAR_HOST float general_score_scale(float squares, i64 visible) {
  return (float)(Config::score_scale(visible) * inverse_norm<Config>(squares));
}

// The sink's term in the unit of the row's activations. `largest` is the row's largest score in
// bits. If the term overflows to infinity, the row's weights vanish. A logit of -infinity means no
// sink; NaN and infinity give NaN.
template <class Config>
LSSAR_HOST float sink_activation(float logit, i64 visible, float largest) {
  if (!(logit < infinity())) return quiet_nan();
  const double bits = ((double)logit - Config::sink_bias(visible)) / kLn2 - largest;
  return exp2_of<Config>(splat<Config>((float)bits))[0];
}

// How activations become u = U / m. `largest`: the activation whose U is the row's largest. Made
// from saved numbers only, so that the forward and the backward have the same bits. REQUIRES: a
// live row.
template <class Config>
LSSAR_HOST WeightScale general_weight_scale(i64 visible, float r, float m, float largest) {
  if (row_offset<Config>(visible) == 0.0f) return {0.0f, 1.0f / largest, 0.0f};
  return {largest, (float)((double)visible / ((double)r * m)), 1.0f};
}

// u of activations. A NaN stays, because it comes second.
template <class Config>
LSSAR_HOST Floats<Config> general_base(Floats<Config> activation, const WeightScale& scale) {
  return larger<Config>(Floats<Config>{},
                        (activation - scale.origin) * scale.slope + scale.intercept);
}

// N_i / r_i, by which psi multiplies activations. 0 in a row without r.
LSSAR_HOST float psi_scale(i64 visible, float r) { return r == 0.0f ? 0.0f : (float)visible / r; }

// Which of kLanes keys a row sees, where `seen` are left of them.
template <class Config>
LSSAR_HOST Ints<Config> seen_lanes(i64 seen) {
  const int most = Config::kLanes;
  return lane_numbers<Config>() < (seen < 0 ? 0 : seen < most ? (int)seen : most);
}

}  // namespace lssar_device
