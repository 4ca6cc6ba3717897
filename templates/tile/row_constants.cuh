// A query row's constants, written once, read by every score.
//
// backward_rows.cuh writes them.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/types.cuh"
#include "templates/tile/score.cuh"

namespace lssar_device {

// Here c'_i = c_i / |q_i|, and root_i = zs_i^(-1/p) is at most 1. A row whose statistics are NaN
// has NaN in gain and in both epsilons.
//
// The base u_ij root_i = saturate(slope A_ij + intercept) has the weight M_ij as its power p, so
// weights need no division by zs_i. The forward uses the distance from the largest activation
// instead (WeightScale), which takes one more instruction per score. 16-bit problems do without it,
// because rounding the weights costs more than the error of the intercept. Where N P - b cancels,
// slope A_ij and intercept are many times the base. So float32 problems use the distance: (A_ij -
// origin) slope + intercept.
struct RowConstants {
  float score_scale;  // c'_i log2(e)
  float slope;
  float intercept;
  float gain;             // p N_i c'_i root_i / (m_i R_i)
  u32 limits;             // RowLimits; the origin in float32 problems, which have no limits
  float epsilon;          // eps_i c'_i / R_i
  float gain_delta;       // gain g_i o_i
  float inverse_epsilon;  // see inverse_of_epsilon

  LSSAR_DEVICE void unpack_low(const float (&low)[4]) {
    score_scale = low[0];
    slope = low[1];
    intercept = low[2];
    gain = low[3];
  }
  LSSAR_DEVICE void unpack_from(const float (&low)[4], const float (&high)[4]) {
    unpack_low(low);
    limits = bits_of_float(high[0]);
    epsilon = high[1];
    gain_delta = high[2];
    inverse_epsilon = high[3];
  }
  LSSAR_DEVICE void pack_to(float (&low)[4], float (&high)[4]) const {
    low[0] = score_scale;
    low[1] = slope;
    low[2] = intercept;
    low[3] = gain;
    high[0] = float_from_bits(limits);
    high[1] = epsilon;
    high[2] = gain_delta;
    high[3] = inverse_epsilon;
  }
};
static_assert(sizeof(RowConstants) <= kRowConstantBytes, "two 16-byte vectors");

// Weights in (0, 1] are multiplied by this before they are rounded. 2^15 keeps small weights normal
// in fp16; bf16 and float have large enough exponents.
//
// With kScalesWeights weights may be larger than 1 and have a GradScale instead.
template <class Config>
constexpr float kWeightRange = Config::kIsFp16 && !Config::kScalesWeights ? 32768.0f : 1.0f;

LSSAR_DEVICE RowConstants load_row_constants_shared(u32 address) {
  float low[4], high[4];
  load_shared(low, address);
  load_shared(high, address + kVectorBytes);
  RowConstants constants;
  constants.unpack_from(low, high);
  return constants;
}

LSSAR_DEVICE RowConstants load_row_constants_global(const float* row) {
  float low[4], high[4];
  load_global_16(low, row);
  load_global_16(high, row + 4);
  RowConstants constants;
  constants.unpack_from(low, high);
  return constants;
}

// Replaces infinity by the largest number, whose inverse is also practically 0.
LSSAR_DEVICE float limit_inverse(float inverse) {
  constexpr float kLargest = 3.402823466e38f;
  return absolute(inverse) == infinity() ? kLargest : inverse;
}

// Finite, or NaN if epsilon is NaN, so that 0 times it is 0 or NaN. An epsilon of 2^126 or more is
// recovered as infinity.
LSSAR_DEVICE float inverse_of_epsilon(float epsilon) { return limit_inverse(1.0f / epsilon); }

// The constants of a row that is dead, has no keys, or is past the end. (If a tile of rows is
// copied, rows past the end are all zeros instead.)
LSSAR_DEVICE RowConstants no_gradient() {
  RowConstants row{};
  row.inverse_epsilon = inverse_of_epsilon(0.0f);
  row.limits = kLinearSoftplus;
  return row;
}

// u_ij root_i of an activation.
template <class Config>
LSSAR_DEVICE float weight_base(float softplus, const RowConstants& row) {
  if constexpr (Config::kIsFp32) softplus -= float_from_bits(row.limits);
  return fma_saturate(softplus, row.slope, row.intercept);
}

// Properties of the whole row, in one word:
//   bits 31-16: the upper half of a float32, at most 2^126, that is at least |gain| |g_i| w s.
//               w is the largest base^(p-1), s the largest sigmoid (tile/scale_ahead.cuh)
//   bits 13-9:  how often w can be doubled and stay at most 1
//   bits 8-2:   the same for s
//   bits 1-0:   the cheapest evaluator that is accurate enough for the row
// All but the evaluator are 0 if nobody reads them. A row of zeros, whose inverse_epsilon is 0,
// requires the full evaluator.
struct RowLimits {
  static constexpr u32 kEvaluatorMask = 3;
  static_assert(kFullSoftplus == 0 && kLinearSoftplus <= kEvaluatorMask, "dearest first");
  static constexpr u32 kSigmoidShift = 2, kSigmoidMask = 127, kMostSigmoid = 126;
  static constexpr u32 kWeightShift = 9, kWeightMask = 31;
  static constexpr u32 kBoundMask = 0xffff0000u;

  u32 word;

  static LSSAR_DEVICE u32 doublings(float x, u32 most) {
    const u32 exponent = bits_of_float(x) >> 23;
    const u32 count = exponent < 126 ? 126 - exponent : 0;
    return count < most ? count : most;
  }
  static LSSAR_DEVICE u32 pack(float bound, float w, float s) {
    return ((bits_of_float(bound) + ~kBoundMask) & kBoundMask) |
           doublings(w, kWeightMask) << kWeightShift | doublings(s, kMostSigmoid) << kSigmoidShift;
  }

  // The larger the demand, the more expensive the evaluator.
  LSSAR_DEVICE u32 demand() const { return ~word & kEvaluatorMask; }
  LSSAR_DEVICE u32 weight_doublings() const { return word >> kWeightShift & kWeightMask; }
  LSSAR_DEVICE u32 sigmoid_doublings() const { return word >> kSigmoidShift & kSigmoidMask; }
  LSSAR_DEVICE float bound() const { return float_from_bits(word & kBoundMask); }
};

// The cheapest evaluator for rows of at most this demand.
LSSAR_DEVICE Evaluator evaluator_for(u32 demand) {
  return static_cast<Evaluator>(RowLimits::kEvaluatorMask - demand);
}

// Computes from the score x (in bits) and d = g_i v_j the weight M_ij kWeightRange, and
//   dS'_ij = dS_ij c'_i = (base^(p-1) (gain D - gain_delta) - epsilon) sigmoid(S_ij).
// The linear form takes 1 for the sigmoid where there are weights. The sigmoid that multiplies
// epsilon is needed for every score; the inverse of epsilon saves one instruction there. NOTE:
// saturating hides a NaN. Without kKeepsNan, the weight of a row that saw a NaN is finite. With
// kKeepsNan it is NaN, also if a NaN of g or v has reached epsilon.
template <class Config, bool kKeepsNan, Evaluator kEvaluator = kFullSoftplus>
LSSAR_DEVICE void weight_and_gradient(float x, float d, const RowConstants& row, float& weight,
                                      float& grad) {
  constexpr float kRange = kWeightRange<Config>;
  Activation a{x, 1.0f};
  if constexpr (kEvaluator != kLinearSoftplus) a = activation_of<Config, kEvaluator>(x);
  const float base = weight_base<Config>(a.softplus, row);
  const float slope = Config::power_slope(base);
  weight =
      kKeepsNan ? fma(base * kRange, slope, row.inverse_epsilon * 0.0f) : base * slope * kRange;
  const float change = fma(row.gain, d, -row.gain_delta);
  if constexpr (kEvaluator == kLinearSoftplus) {
    const float u = exp2_approx(-x), inverse = -row.inverse_epsilon;  // u may be infinite
    grad = fma(slope, change, reciprocal_approx(fma(u, inverse, inverse)));
  } else {
    grad = fma(slope, change, -row.epsilon) * a.sigmoid;
  }
}

// The number of products of dS' in dq, given the keys that the first row of a tile sees. With 2,
// one of them takes the errors of rounding to 16 bits. The few dS of a row without an offset sum to
// zero. If its keys are equal, its dq is zero too, and without the second product only rounding
// errors would be left.
template <class Config>
LSSAR_DEVICE int num_grad_parts(i64 visible_of_first_row) {
  return !Config::kIsFp32 && visible_of_first_row <= 3 ? 2 : 1;
}

// The same for the rows of a warp, of which a lane has two. Any row may see few keys in a window.
template <class Config>
LSSAR_DEVICE int num_warp_grad_parts(const RowKeys<Config> (&visible)[2]) {
  const auto has_few = [](i64 keys) { return keys > 0 && num_grad_parts<Config>(keys) > 1; };
  return warp_all(!has_few(visible[0]) && !has_few(visible[1])) ? 1 : 2;
}

}  // namespace lssar_device
