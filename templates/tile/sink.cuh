// The sink of a head: a logit t_h that takes part in the sum r_i as exp(t_h) does, and has no
// value. It goes with an exponential over a sum (kIsExponential), whose activations have the row's
// largest score taken out. So has the sink's; it may be much larger than 1.
//
// kSinkNeedsEpsilon: its gradient needs the pass of epsilon. Without a second stage epsilon is
// delta, and the power without an offset has none.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/math.cuh"

namespace lssar_device {

// In the unit of the activations of a row whose largest score, in bits, is `largest`; infinity
// where that overflows, and the row's weights vanish. A logit of -infinity is no sink; NaN and
// infinity give NaN.
template <class Config>
LSSAR_DEVICE float sink_activation(float logit, float num_keys, float largest) {
  constexpr float kLog2E = 1.4426950408889634f;
  if (!(logit < infinity())) return quiet_nan();
  return exp2_approx(fma(logit - Config::sink_bias(num_keys), kLog2E, -largest));
}

// AttentionParams::sink_terms: for each row what it adds to its head's gradient, and behind all of
// these, where kSinkNeedsEpsilon, c'_i / r_i.
LSSAR_DEVICE float* sink_terms_of(const AttentionParams& params, int plane, i64 count, i64 row) {
  return params.sink_terms + plane * count + row;
}

}  // namespace lssar_device
