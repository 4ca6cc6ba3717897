// Score math on vectors, and scalar functions for rows. Scores are in bits, as on GPUs.
#pragma once

#include "templates/cpu/vector.h"

namespace lssar_device {

constexpr double kLn2 = 0.6931471805599453;
constexpr float kDeadRow = 1.52587890625e-05f;  // 2^-16
constexpr float kLeastNormSquared = 1e-24f;

inline __attribute__((always_inline)) float infinity() { return __builtin_inff(); }
inline __attribute__((always_inline)) float quiet_nan() { return __builtin_nanf(""); }

// 1.5 * 2^23. Adding it rounds to a whole number and leaves that in the low bits of the sum.
constexpr float kRoundToWhole = 12582912.0f;

// Splits -|x|, but at least -126, into a whole number, which is given as the exponent of a float,
// and a fraction in [-1/2, 1/2].
template <class Config>
LSSAR_HOST Floats<Config> split_minus_abs(Floats<Config> x, Words<Config>& exponent) {
  const Floats<Config> minus = (Floats<Config>)((Words<Config>)x | 0x80000000u);
  const Floats<Config> least = splat<Config>(-126.0f);
  const Floats<Config> bounded = minus < least ? least : minus;
  const Floats<Config> shifted = bounded + kRoundToWhole;
  exponent = (Words<Config>)shifted << 23;
  return bounded - (shifted - kRoundToWhole);
}

// 2^-|x|, but not less than the smallest normal float.
template <class Config>
LSSAR_HOST Floats<Config> exp2_of_minus_abs(Floats<Config> x) {
  Words<Config> exponent;
  const Floats<Config> fraction = split_minus_abs<Config>(x, exponent);
  return (Floats<Config>)((Words<Config>)Config::exp2_polynomial(fraction) + exponent);
}

// log2(1 + 2^x) and 2^x / (1 + 2^x) from x and u = 2^-|x|. A NaN in x gives a NaN in the former.
template <class Config>
LSSAR_HOST Floats<Config> softplus_from(Floats<Config> x, Floats<Config> u) {
  return Config::softplus_polynomial(u) * u + (x < 0.0f ? Floats<Config>{} : x);
}
template <class Config>
LSSAR_HOST Floats<Config> sigmoid_from(Floats<Config> x, Floats<Config> u) {
  const Floats<Config> one = splat<Config>(1.0f);
  return (x < 0.0f ? u : one) / (one + u);
}

template <class Config>
LSSAR_HOST Floats<Config> softplus_bits(Floats<Config> x) {
  return softplus_from<Config>(x, exp2_of_minus_abs<Config>(x));
}

// log2(n) for n >= 1, with at least a float's precision.
LSSAR_HOST double log2_of(i64 n) {
  const double x = (double)n;
  u64 bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  int exponent = (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
  double mantissa;
  __builtin_memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    exponent += 1;
  }
  // log(m) = 2 artanh(s), |s| <= 0.172.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double t = s * s;
  double sum = 1.0 / 13;
  sum = sum * t + 1.0 / 11;
  sum = sum * t + 1.0 / 9;
  sum = sum * t + 1.0 / 7;
  sum = sum * t + 1.0 / 5;
  sum = sum * t + 1.0 / 3;
  sum = sum * t + 1.0;
  return exponent + 2.0 * s * sum / kLn2;
}

// 1 / |x| from |x|^2, and 0 if |x| <= 1e-12. If x is not finite, x times the result is NaN.
//
// Without kHasNorms it is 1, or NaN for such an x.
template <class Config>
LSSAR_HOST float inverse_norm(float squares) {
  if constexpr (!Config::kHasNorms) return squares < infinity() ? 1.0f : quiet_nan();
  return squares <= kLeastNormSquared ? 0.0f : 1.0f / __builtin_sqrtf(squares);
}

}  // namespace lssar_device
