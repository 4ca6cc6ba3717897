// The sink of a head: a logit t_h that adds exp(t_h) to the sum r_i and has no value. phi is an
// exponential over a sum, with the row's largest score taken out. The same score is taken out of
// t_h, so the sink's term may be much larger than 1.
//
// kSinkNeedsEpsilon: the sink's gradient needs the pass of epsilon. Without a second stage epsilon
// is delta. For the power without an offset it is 0.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/tile/expression_math.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// The sink's term in the unit of the row's activations. `largest` is the row's largest score in
// bits. If the term overflows to infinity, the row's weights vanish. A logit of -infinity means no
// sink; NaN and infinity give NaN.
template <class Config>
LSSAR_DEVICE float sink_activation(float logit, float num_keys, float largest) {
  if (!(logit < infinity())) return quiet_nan();
  return exp2_approx(fma(logit - Config::sink_bias(num_keys), kLog2E, -largest));
}

// AttentionParams::sink_terms: plane 0 has what each row adds to its head's gradient.
//
// kSinkNeedsEpsilon: plane 1 has c'_i / r_i.
template <class Config>
LSSAR_DEVICE float* sink_terms_of(const AttentionParams& params, int plane, i64 row) {
  const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
  return params.sink_terms + plane * count + row;
}

}  // namespace lssar_device
