// The functions that score functions are written in, for the device. Arguments and results are
// natural units. Errors are relative and for normal numbers; a NaN operand gives NaN.
//
// kPrecise: float32 problems and large powers, which multiply errors.
#pragma once

#include "templates/ptx/math.cuh"

namespace lssar_device {

inline constexpr float kLog2E = 1.4426950408889634f;

// e^x. The product x log2(e) loses |x| 2^-24 of the result; precisely: within 2^-21. Below 2^-126
// it is 0.
template <bool kPrecise>
LSSAR_DEVICE float exponential(float x) {
  if constexpr (!kPrecise) return exp2_approx(x * kLog2E);
  constexpr float kLog2ELow = 1.9259629911e-8f;            // log2(e) - kLog2E
  x = maximum_or_nan(minimum_or_nan(x, 100.0f), -100.0f);  // infinity and 0 beyond
  const float bits = x * kLog2E;
  const float rest = fma(x, kLog2ELow, fma(x, kLog2E, -bits));
  return exp2_approx(bits) * fma(rest, 0.6931471805599453f, 1.0f);
}

// log(x), within 2^-22: of x = m 2^e with m in [0.7, 1.4), by the series of log((1 + s) / (1 - s)).
// Subnormal x count as 0.
LSSAR_DEVICE float natural_log(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -infinity() : quiet_nan();
  const u32 bits = bits_of_float(x);
  if (bits >= 0x7f800000u) return x;
  if (bits < 0x00800000u) return -infinity();
  const int exponent = static_cast<int>(bits - 0x3f3504f3u) >> 23;
  const float m = float_from_bits(bits - (static_cast<u32>(exponent) << 23));
  const float s = (m - 1.0f) / (m + 1.0f), square = s * s;
  float series = fma(square, 0.22222222f, 0.28571429f);
  series = fma(series, square, 0.4f);
  series = fma(series, square, 0.66666667f);
  series = fma(series * square, s, 2.0f * s);
  return fma(static_cast<float>(exponent), 0.6931471805599453f, series);
}

// log(1 + x). The rounding of 1 + x is divided out again.
LSSAR_DEVICE float log_one_plus(float x) {
  const float sum = 1.0f + x;
  if (sum == 1.0f || !(absolute(sum) < infinity())) return x;
  return natural_log(sum) * (x / (sum - 1.0f));
}

template <bool kPrecise>
LSSAR_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + exponential<kPrecise>(-x));
}

// log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|, where log2(1 + u) = u P(u).
template <class Config, bool kPrecise>
LSSAR_DEVICE float softplus(float x) {
  const float u = exponential<kPrecise>(-absolute(x));
  return fma(u * 0.6931471805599453f, Config::row_polynomial(u), maximum_or_nan(x, 0.0f));
}

// 1 - 2 / (e^2x + 1); near 0, where that cancels, a polynomial (6e-8).
template <bool kPrecise>
LSSAR_DEVICE float hyperbolic_tangent(float x) {
  if (absolute(x) >= 0.6f) return 1.0f - 2.0f / (exponential<kPrecise>(2.0f * x) + 1.0f);
  const float square = x * x;
  float sum = fma(square, -0.00585216517f, 0.0207536258f);
  sum = fma(sum, square, -0.0537687019f);
  sum = fma(sum, square, 0.133316889f);
  sum = fma(sum, square, -0.333332837f);
  return fma(sum * square, x, x);
}

// erf(x): a polynomial up to 1, 1 - e^(-x^2) P(1 / (1 + |x| / 2)) beyond (2e-7).
LSSAR_DEVICE float error_function(float x) {
  const float size = absolute(x), square = x * x;
  if (!(size > 1.0f)) {
    float sum = fma(square, 7.85385782e-05f, -0.000801019254f);
    sum = fma(sum, square, 0.00518832775f);
    sum = fma(sum, square, -0.026853811f);
    sum = fma(sum, square, 0.112835854f);
    sum = fma(sum, square, -0.37612626f);
    return fma(sum, square, 1.12837911f) * x;
  }
  const float t = 1.0f / fma(0.5f, size, 1.0f);
  float sum = fma(t, 0.117676489f, -0.465468973f);
  sum = fma(sum, t, 0.554919958f);
  sum = fma(sum, t, -0.096909076f);
  sum = fma(sum, t, 0.344599575f);
  sum = fma(sum, t, 0.260599107f);
  sum = fma(sum, t, 0.284769535f);
  sum = fma(sum, t, -0.000144642079f);
  const float erf = size > 4.0f ? 1.0f : 1.0f - exponential<true>(-square) * sum;
  return x < 0.0f ? -erf : erf;
}

// x^n by squaring: the compiler knows n.
template <int kExponent>
LSSAR_DEVICE float whole_power(float x) {
  float result = 1.0f;
#pragma unroll
  for (int rest = kExponent; rest > 0; rest /= 2) {
    if (rest % 2 != 0) result *= x;
    x *= x;
  }
  return result;
}

// x^y as pow of the C library has it.
LSSAR_DEVICE float general_power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  const float size = exponential<true>(y * natural_log(absolute(x)));
  if (!(x < 0.0f)) return size;
  const bool is_whole = absolute(y) >= 16777216.0f || static_cast<float>(static_cast<int>(y)) == y;
  if (!is_whole) return quiet_nan();
  const bool is_odd = absolute(y) < 16777216.0f && static_cast<int>(y) % 2 != 0;
  return is_odd ? -size : size;
}

// `value` where the condition on a and b holds, else `other`; NaN where a or b is NaN.
LSSAR_DEVICE float choose(bool holds, float a, float b, float value, float other) {
  return is_nan(a) || is_nan(b) ? quiet_nan() : holds ? value : other;
}

// 1, -1, or 0 at 0; a NaN stays.
LSSAR_DEVICE float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

// kFusesScale: one fma makes scores from products, but the largest one was scaled and rounded. So a
// row's largest score is not 0 but a rounding error, which cancels in its sum if it is small. In
// rows with large scores it is not small, so all of their products are scaled and rounded.
LSSAR_DEVICE bool has_large_scores(float largest) {
  constexpr float kLargeScore = 1048576.0f;  // rounding it drops at most 1/32
  return absolute(largest) >= kLargeScore;
}

}  // namespace lssar_device
