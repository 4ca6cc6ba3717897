// From a score to its softplus, its sigmoid and its weight.
//
// docs/math.md has the formulas.
//
// Scores are in bits, x = S log2(e), and so are activations, A log2(e) = log2(1 + 2^x).
// `Config` is generated for the problem: it holds the polynomial, the power chain and the offset.
#pragma once

#include "templates/ptx/math.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

inline constexpr float kLn2 = 0.6931471805599453f;

// log2(1 + 2^x) = max(x, 0) + log2(1 + 2^-|x|).
template <class Config>
LSSAR_DEVICE float softplus_bits(float x) {
  const float u = exp2_approx(-absolute(x));
  return fma(u, Config::softplus_polynomial(u), maximum(x, 0.0f));
}

// The same to float32 accuracy, for values needed once per row.
template <class Config>
LSSAR_DEVICE float row_softplus_bits(float x) {
  const float u = exp2_approx(-absolute(x));
  return fma(u, Config::row_polynomial(u), maximum(x, 0.0f));
}

// The inverse, as a lower bound: a score whose softplus is at most `softplus` > 0, and close to it.
LSSAR_DEVICE float inverse_softplus_bits(float softplus) {
  if (softplus >= 1.0f) return softplus + log2_approx(1.0f - exp2_approx(-softplus));
  const float x = softplus * kLn2;  // 2^softplus - 1 >= x + x^2 / 2
  return log2_approx(fma(x * 0.5f, x, x));
}

// The sigmoid 2^x / (1 + 2^x) from a score and its softplus. Its relative error is the error of the
// softplus times ln 2, for both signs of x.
LSSAR_DEVICE float sigmoid_of(float x, float softplus) { return exp2_approx(x - softplus); }

// Softplus for x >= 2, with an error of at most 2.1e-4. It is used above kShortLimit only.
//
// It is too small, and still increasing in x, where u <= 1/4. All scores that matter must be above
// kShortLimit, because near 2 bits its slope is too inaccurate for fp16 with p = 1.
inline constexpr float kShortLimit = 3.0f;
LSSAR_DEVICE float short_softplus_from(float x, float u) {  // u = 2^-x, at least where x >= 2
  return fma(u, fma(u, -0.58381888f, 1.43283562f), x);
}
LSSAR_DEVICE float short_softplus_bits(float x) {
  const float u = exp2_approx(-absolute(x));
  return fma(u, fma(u, -0.58381888f, 1.43283562f), x);
}

// A bound of its error for x >= 2. At u = 0 the polynomial's slope is off by less than 0.01.
LSSAR_DEVICE float short_softplus_error(float x) {
  const float error = 0.01f * exp2_approx(-x);
  return error < 2.1e-4f ? error : 2.1e-4f;
}

// Above this, softplus(x) = x is accurate enough.
//
// The slope matters most: it is off by 2^-x, which acts like a different p if all scores of a row
// are near the limit. With a limit of 7 bits errors of o were 6e-3, with 10 they are 4e-4.
inline constexpr float kLinearLimit = 10.0f;

// How softplus is evaluated, by the lowest score that matters.
//
// The forward chooses by that score, the backward by how the evaluator changes weights
// (row_evaluator).
enum Evaluator {
  kFullSoftplus,    // for any lowest score
  kShortSoftplus,   // if it is some bits: a short polynomial
  kLinearSoftplus,  // if it is more: softplus(x) = x
};

// A score's activation as the evaluator computes it, and its full sigmoid, which every score needs.
// (The activation of kLinearSoftplus is the score.)
struct Activation {
  float softplus;
  float sigmoid;
};
template <class Config, Evaluator kEvaluator>
LSSAR_DEVICE Activation activation_of(float x) {
  static_assert(kEvaluator != kLinearSoftplus, "the score itself");
  if constexpr (kEvaluator == kFullSoftplus) {
    const float softplus = softplus_bits<Config>(x);
    return {softplus, sigmoid_of(x, softplus)};
  } else {
    const float u = exp2_approx(-x);  // if infinite: a sigmoid of 0, an activation without weight
    return {short_softplus_from(x, u), reciprocal_approx(1.0f + u)};
  }
}

// Sums log2(1 + 2^x) over a row, as the logarithm of a product. `excess` is that product minus one.
//
// So a score takes one special function. The product itself would lose every factor below
// 1 + 2^-24, that is all factors of a row of very negative scores.
struct SoftplusSum {
  // (1 + u) <= 2, so this many factors stay within float32's range.
  static constexpr int kMaxFactors = 126;

  float excess = 0.0f;
  float positive = 0.0f;  // sum of max(x, 0) since the last flush
  float total = 0.0f;     // `lost`: its rounding errors; R of 10^6 keys decides on dead rows
  float lost = 0.0f;
  float largest = -infinity();  // NOTE: ignores NaN, which reaches `total`

  LSSAR_DEVICE void add(float x) {
    const float u = exp2_approx(-absolute(x));
    positive += maximum(x, 0.0f);
    largest = maximum(largest, x);
    excess = fma(excess, u, excess + u);
  }

  // REQUIRES: called after at most kMaxFactors calls of add.
  template <class Config>
  LSSAR_DEVICE void flush() {
    const float product_bits =
        excess < 1.0f ? excess * Config::row_polynomial(excess) : log2_approx(1.0f + excess);
    add_compensated(positive);
    add_compensated(product_bits);
    excess = positive = 0.0f;
  }

  // Kahan's sum.
  LSSAR_DEVICE void add_compensated(float x) {
    const float term = x - lost;
    const float sum = total + term;
    lost = (sum - total) - term;
    total = sum;
  }
};

// Computes u = U / m from an activation, per row: u = saturate((A - origin) * slope + intercept).
//
// Rows with an offset use the distance from the largest activation, so that max u is exactly 1 even
// where U = N P - b cancels. Rows without an offset use A itself.
struct WeightScale {
  float origin;
  float slope;
  float intercept;

  LSSAR_DEVICE float apply(float softplus) const {
    return fma_saturate(softplus - origin, slope, intercept);
  }
  // The activation that has weight u > 0. REQUIRES: slope != 0.
  LSSAR_DEVICE float activation(float u) const { return origin + (u - intercept) / slope; }
};

// b_i: the offset, but 0 in rows of at most three keys.
template <class Config>
LSSAR_DEVICE float row_offset(float num_keys) {
  return num_keys <= 3.0f ? 0.0f : Config::kOffset;
}

// m_i = max_j U_ij. `sum` is R in bits.
template <class Config>
LSSAR_DEVICE float largest_weight(float num_keys, float sum, float largest_score) {
  return num_keys * row_softplus_bits<Config>(largest_score) / sum - row_offset<Config>(num_keys);
}

// `extreme`: the largest score in bits. REQUIRES: a live row.
//
// With kIsGeneral it is the activation of m.
template <class Config>
LSSAR_DEVICE WeightScale weight_scale(float num_keys, float sum, float m, float extreme) {
  const float largest = Config::kIsGeneral ? extreme : softplus_bits<Config>(extreme);
  if (row_offset<Config>(num_keys) == 0.0f) return {0.0f, 1.0f / largest, 0.0f};
  return {largest, num_keys / sum / m, 1.0f};
}

// Whether every score of the row that matters (u >= kCutWeight) is at least `limit`, and one fma
// can compute u without the distance from the largest activation.
template <class Config>
LSSAR_DEVICE bool has_scores_above(const WeightScale& s, float limit) {
  constexpr float kMaxCancelling = 64.0f;
  if (s.slope == 0.0f) return true;  // no weights
  return s.activation(Config::kCutWeight) >= row_softplus_bits<Config>(limit) &&
         s.origin * s.slope <= kMaxCancelling;
}

// A scale that makes every weight 0.
LSSAR_DEVICE WeightScale dead_weight_scale() { return {0.0f, 0.0f, 0.0f}; }

}  // namespace lssar_device
