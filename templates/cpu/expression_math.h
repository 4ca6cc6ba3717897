// The functions that score functions are written in, on vectors. Arguments and results are natural
// units. Errors are relative and for normal numbers; a NaN operand gives NaN.
#pragma once

#include "templates/cpu/math.h"

namespace lssar_device {

constexpr float kLog2E = 1.4426950408889634f;

template <class Config>
LSSAR_HOST Floats<Config> absolute(Floats<Config> x) {
  return (Floats<Config>)((Words<Config>)x & 0x7fffffffu);
}

template <class Config>
LSSAR_HOST Floats<Config> minimum_or_nan(Floats<Config> a, Floats<Config> b) {
  return ((a < b) | (a != a)) ? a : b;
}

template <class Config>
LSSAR_HOST Floats<Config> maximum_or_nan(Floats<Config> a, Floats<Config> b) {
  return ((a > b) | (a != a)) ? a : b;
}

template <class Config>
LSSAR_HOST Floats<Config> square_root(Floats<Config> x) {
  Floats<Config> root;
  LSSAR_UNROLL
  for (int i = 0; i < Config::kLanes; ++i) root[i] = __builtin_sqrtf(x[i]);
  return root;
}

// 2^(whole + fraction) for |fraction| <= 1/2; `shifted` is whole + kRoundToWhole. REQUIRES: the
// result is infinity or a normal number.
template <class Config>
LSSAR_HOST Floats<Config> exp2_from(Floats<Config> shifted, Floats<Config> fraction) {
  const Words<Config> exponent = (Words<Config>)shifted << 23;
  return (Floats<Config>)((Words<Config>)Config::exp2_polynomial(fraction) + exponent);
}

// 2^x. Below 2^-126 it is 0.
template <class Config>
LSSAR_HOST Floats<Config> exp2_of(Floats<Config> x) {
  constexpr float kLeast = -126.0f, kMost = 128.0f;
  Floats<Config> bounded = x < kLeast ? splat<Config>(kLeast) : x;
  bounded = bounded > kMost ? splat<Config>(kMost) : bounded;
  const Floats<Config> shifted = bounded + kRoundToWhole;
  const Floats<Config> result = exp2_from<Config>(shifted, bounded - (shifted - kRoundToWhole));
  return x < kLeast ? Floats<Config>{} : x == x ? result : x;
}

// e^x. Below 2^-126 it is 0. The part of log2(e) that a float lacks counts, too.
template <class Config>
LSSAR_HOST Floats<Config> exponential(Floats<Config> x) {
  constexpr float kLog2ELow = 1.9259629911e-8f;
  constexpr float kLeast = -87.3365402f, kMost = 88.7228317f;
  Floats<Config> bounded = x < kLeast ? splat<Config>(kLeast) : x;
  bounded = bounded > kMost ? splat<Config>(kMost) : bounded;
  const Floats<Config> shifted = bounded * kLog2E + kRoundToWhole;
  const Floats<Config> rest = bounded * kLog2E - (shifted - kRoundToWhole);
  Floats<Config> result = exp2_from<Config>(shifted, bounded * kLog2ELow + rest);
  result = x > kMost ? splat<Config>(infinity()) : result;
  return x < kLeast ? Floats<Config>{} : x == x ? result : x;
}

// log(x), within 2^-22: of x = m 2^e with m in [0.7, 1.4), by the series of log((1 + s) / (1 - s)).
// Subnormal x count as 0.
template <class Config>
LSSAR_HOST Floats<Config> natural_log(Floats<Config> x) {
  constexpr float kLeast = 1.17549435e-38f;
  const Words<Config> bits = (Words<Config>)x;
  const Ints<Config> exponent = (Ints<Config>)(bits - 0x3f3504f3u) >> 23;
  const Floats<Config> m = (Floats<Config>)(bits - ((Words<Config>)exponent << 23));
  const Floats<Config> s = (m - 1.0f) / (m + 1.0f);
  const Floats<Config> square = s * s;
  Floats<Config> series = square * 0.22222222f + 0.28571429f;
  series = series * square + 0.4f;
  series = series * square + 0.66666667f;
  series = series * square * s + 2.0f * s;
  Floats<Config> result =
      __builtin_convertvector(exponent, Floats<Config>) * 0.6931471805599453f + series;
  result = x < kLeast ? splat<Config>(-infinity()) : result;
  result = x < 0.0f ? splat<Config>(quiet_nan()) : result;
  return x < infinity() ? result : x;
}

// log(1 + x). The rounding of 1 + x is divided out again.
template <class Config>
LSSAR_HOST Floats<Config> log_one_plus(Floats<Config> x) {
  const Floats<Config> sum = 1.0f + x;
  const Floats<Config> result = natural_log<Config>(sum) * (x / (sum - 1.0f));
  return ((sum == 1.0f) | (sum == infinity())) ? x : result;
}

template <class Config>
LSSAR_HOST Floats<Config> sigmoid(Floats<Config> x) {
  return 1.0f / (1.0f + exponential<Config>(-x));
}

// log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|, where log2(1 + u) = u P(u).
template <class Config>
LSSAR_HOST Floats<Config> softplus(Floats<Config> x) {
  const Floats<Config> u = exponential<Config>(-absolute<Config>(x));
  return u * 0.6931471805599453f * Config::softplus_polynomial(u) +
         maximum_or_nan<Config>(x, Floats<Config>{});
}

// 1 - 2 / (e^2x + 1); near 0, where that cancels, a polynomial (6e-8).
template <class Config>
LSSAR_HOST Floats<Config> hyperbolic_tangent(Floats<Config> x) {
  const Floats<Config> square = x * x;
  Floats<Config> sum = square * -0.00585216517f + 0.0207536258f;
  sum = sum * square + -0.0537687019f;
  sum = sum * square + 0.133316889f;
  sum = sum * square + -0.333332837f;
  const Floats<Config> near = sum * square * x + x;
  const Floats<Config> far = 1.0f - 2.0f / (exponential<Config>(2.0f * x) + 1.0f);
  return absolute<Config>(x) >= 0.6f ? far : near;
}

// erf(x): a polynomial up to 1, 1 - e^(-x^2) P(1 / (1 + |x| / 2)) beyond (2e-7).
template <class Config>
LSSAR_HOST Floats<Config> error_function(Floats<Config> x) {
  const Floats<Config> size = absolute<Config>(x), square = x * x;
  Floats<Config> sum = square * 7.85385782e-05f + -0.000801019254f;
  sum = sum * square + 0.00518832775f;
  sum = sum * square + -0.026853811f;
  sum = sum * square + 0.112835854f;
  sum = sum * square + -0.37612626f;
  const Floats<Config> near = (sum * square + 1.12837911f) * x;
  const Floats<Config> t = 1.0f / (0.5f * size + 1.0f);
  sum = t * 0.117676489f + -0.465468973f;
  sum = sum * t + 0.554919958f;
  sum = sum * t + -0.096909076f;
  sum = sum * t + 0.344599575f;
  sum = sum * t + 0.260599107f;
  sum = sum * t + 0.284769535f;
  sum = sum * t + -0.000144642079f;
  const Floats<Config> one = splat<Config>(1.0f);
  const Floats<Config> far = size > 4.0f ? one : 1.0f - exponential<Config>(-square) * sum;
  return size > 1.0f ? (x < 0.0f ? -far : far) : near;
}

// x^n by squaring: the compiler knows n.
template <class Config, int kExponent>
LSSAR_HOST Floats<Config> whole_power(Floats<Config> x) {
  Floats<Config> result = splat<Config>(1.0f);
  LSSAR_UNROLL
  for (int rest = kExponent; rest > 0; rest /= 2) {
    if (rest % 2 != 0) result *= x;
    x *= x;
  }
  return result;
}

// x^y as pow of the C library has it.
template <class Config>
LSSAR_HOST Floats<Config> general_power(Floats<Config> x, Floats<Config> y) {
  constexpr float kAllWhole = 16777216.0f;  // from here on all floats are whole, and even
  const Floats<Config> size = exponential<Config>(y * natural_log<Config>(absolute<Config>(x)));
  const Ints<Config> is_large = absolute<Config>(y) >= kAllWhole;
  const Floats<Config> small = (is_large | (y != y)) ? Floats<Config>{} : y;
  const Ints<Config> whole = __builtin_convertvector(small, Ints<Config>);
  const Ints<Config> is_whole = __builtin_convertvector(whole, Floats<Config>) == small;
  Floats<Config> negative = (whole & 1) != 0 ? -size : size;
  negative = is_whole ? negative : splat<Config>(quiet_nan());
  const Floats<Config> power = x < 0.0f ? negative : size;
  return ((y == 0.0f) | (x == 1.0f)) ? splat<Config>(1.0f) : power;
}

// `value` where the condition on a and b holds, else `other`; NaN where a or b is NaN.
template <class Config>
LSSAR_HOST Floats<Config> choose(Ints<Config> holds, Floats<Config> a, Floats<Config> b,
                                 Floats<Config> value, Floats<Config> other) {
  const Floats<Config> chosen = holds ? value : other;
  return ((a != a) | (b != b)) ? splat<Config>(quiet_nan()) : chosen;
}

// 1, -1, or 0 at 0; a NaN stays.
template <class Config>
LSSAR_HOST Floats<Config> sign_of(Floats<Config> x) {
  const Floats<Config> one = splat<Config>(1.0f);
  return x > 0.0f ? one : x < 0.0f ? -one : x;
}

}  // namespace lssar_device
