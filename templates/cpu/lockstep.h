// Score math on several vectors at once. A polynomial of one vector is a chain of multiply-adds
// that wait for one another. Here several chains take turns, so that the units are busy. The bits
// are those of cpu/math.h.
#pragma once

#include "templates/cpu/math.h"

namespace lssar_device {

// How many vectors of `rows` rows are computed at once: some whole rows, or a part of one. With
// AVX-512 12 vectors took a fifth longer than 4, since their arguments and sums do not stay in the
// registers.
template <class Config>
constexpr int vectors_at_once(int rows, int of_row) {
  const int most = Config::kLanes >= 16 ? 4 : 6;
  int best = 1;
  for (int i = 2; i <= most; ++i)
    if (rows * of_row % i == 0 && (i % of_row == 0 || of_row % i == 0)) best = i;
  return best;
}

// sum[i] = the polynomial with these coefficients, constant first, at x[i]. The loop is not
// unrolled, or the compiler would compute one vector after another.
template <class Config, int kCount, int kTerms>
LSSAR_HOST void polynomials(const float (&coefficients)[kTerms],
                            const Floats<Config> (&x)[kCount], Floats<Config> (&sum)[kCount]) {
  LSSAR_UNROLL
  for (int i = 0; i < kCount; ++i)
    sum[i] = x[i] * coefficients[kTerms - 1] + coefficients[kTerms - 2];
  LSSAR_ROLLED
  for (int term = kTerms - 3; term >= 0; --term) {
    const Floats<Config> coefficient = splat<Config>(coefficients[term]);
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) sum[i] = sum[i] * x[i] + coefficient;
  }
}

// u = 2^-|x| as exp2_of_minus_abs.
template <class Config, int kCount>
LSSAR_HOST void exp2_of_minus_abs(const Floats<Config> (&x)[kCount], Floats<Config> (&u)[kCount]) {
  Floats<Config> fraction[kCount];
  Words<Config> exponent[kCount];
  LSSAR_UNROLL
  for (int i = 0; i < kCount; ++i) fraction[i] = split_minus_abs<Config>(x[i], exponent[i]);
  polynomials<Config>(Config::kExp2Terms, fraction, u);
  LSSAR_UNROLL
  for (int i = 0; i < kCount; ++i) u[i] = (Floats<Config>)((Words<Config>)u[i] + exponent[i]);
}

// log2(1 + 2^x) from x and u = 2^-|x|, as softplus_from.
template <class Config, int kCount>
LSSAR_HOST void softplus_from(const Floats<Config> (&x)[kCount], const Floats<Config> (&u)[kCount],
                              Floats<Config> (&softplus)[kCount]) {
  polynomials<Config>(Config::kSoftplusTerms, u, softplus);
  LSSAR_UNROLL
  for (int i = 0; i < kCount; ++i)
    softplus[i] = softplus[i] * u[i] + (x[i] < 0.0f ? Floats<Config>{} : x[i]);
}

}  // namespace lssar_device
