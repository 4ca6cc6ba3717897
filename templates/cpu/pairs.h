// Pairs of bf16 numbers, each in a 32-bit word with its first number in the low half. With
// AVX512_BF16 a product of pairs is one instruction, and so is rounding to bf16.
//
// Elsewhere the same source computes the same bits with several instructions: tests run it so on
// machines without AVX512_BF16. No target without it has kernels with pairs.
#pragma once

#include "templates/cpu/shuffle.h"
#include "templates/cpu/vector.h"

namespace lssar_device {

// A denormal number becomes a zero of its sign, as in inputs and results of these instructions.
template <class Config>
LSSAR_HOST Floats<Config> without_denormals(Floats<Config> x) {
  const Words<Config> bits = (Words<Config>)x;
  return (Floats<Config>)((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

// The first and the second number of each pair.
template <class Config>
LSSAR_HOST Floats<Config> first_of(Words<Config> pairs) {
  return (Floats<Config>)(pairs << 16);
}
template <class Config>
LSSAR_HOST Floats<Config> second_of(Words<Config> pairs) {
  return (Floats<Config>)(pairs & 0xffff0000u);
}

// sum + a's second numbers times b's, rounded, + a's first numbers times b's, rounded.
template <class Config>
LSSAR_HOST Floats<Config> add_pair_products(Words<Config> a, Words<Config> b, Floats<Config> sum) {
#if defined(__AVX512BF16__)
  typedef __bf16 Numbers __attribute__((vector_size(64)));
  return __builtin_ia32_dpbf16ps_512(sum, (Numbers)a, (Numbers)b);
#else
  const auto add = [](Floats<Config> x, Floats<Config> y, Floats<Config> to) LSSAR_WIDE {
    x = without_denormals<Config>(x);
    y = without_denormals<Config>(y);
    return without_denormals<Config>(x * y + to);  // x y is exact in float32
  };
  sum = add(second_of<Config>(a), second_of<Config>(b), without_denormals<Config>(sum));
  return add(first_of<Config>(a), first_of<Config>(b), sum);
#endif
}

// Rounds to nearest even; NaN stays NaN. Two neighbours are a pair.
template <class Config>
LSSAR_HOST Halves<Config> rounded_numbers(Floats<Config> x) {
#if defined(__AVX512BF16__)
  typedef __bf16 Numbers __attribute__((vector_size(32)));
  return (Halves<Config>)__builtin_ia32_cvtneps2bf16_512_mask(x, Numbers{}, 0xffff);
#else
  return rounded_bf16<Config>(without_denormals<Config>(x));
#endif
}

template <class Config>
LSSAR_HOST void store_rounded(float* to, Floats<Config> x) {
  const Halves<Config> rounded = rounded_numbers<Config>(x);
  __builtin_memcpy(to, &rounded, sizeof(rounded));
}

// Loads kCount pairs, followed by zeros.
template <class Config, int kCount = Config::kLanes, class Number>
LSSAR_HOST Words<Config> load_pairs(const Number* from) {
  Words<Config> pairs = {};
  __builtin_memcpy(&pairs, from, kCount * sizeof(u32));
  return pairs;
}

template <class Config>
LSSAR_HOST Words<Config> splat_pair(const float* from) {
  u32 pair;
  __builtin_memcpy(&pair, from, sizeof(pair));
  return Words<Config>{} + pair;
}

// Numbers of the same lane are a pair.
template <class Config>
LSSAR_HOST Words<Config> pair_lanes(Halves<Config> first, Halves<Config> second) {
  return __builtin_convertvector(first, Words<Config>) |
         __builtin_convertvector(second, Words<Config>) << 16;
}

// Pairs of the numbers of two rows. kIsHalf: of half as many, followed by zeros.
template <class Config, bool kIsHalf = false>
LSSAR_HOST Words<Config> pair_rows(const Bf16* first, const Bf16* second) {
  Halves<Config> a = {}, b = {};
  __builtin_memcpy(&a, first, kIsHalf ? sizeof(a) / 2 : sizeof(a));
  __builtin_memcpy(&b, second, kIsHalf ? sizeof(b) / 2 : sizeof(b));
  return pair_lanes<Config>(a, b);
}

template <class Config>
using TwoHalves = typename VectorOf<2 * Config::kLanes>::Halves;

// Pairs of four of each eight numbers, from the number kFrom on.
template <class Config, int kFrom, int... i>
LSSAR_HOST Words<Config> take_in_turns(TwoHalves<Config> a, TwoHalves<Config> b,
                                       Numbers<int, i...>) {
  return (Words<Config>)__builtin_shufflevector(
      a, b, (i % 2 * 2 * Config::kLanes + i / 8 * 8 + kFrom + i % 8 / 2)...);
}

// Two vectors of pairs of the numbers of two rows, in the order that split_groups makes: one
// instruction for a vector, and it keeps within 16 bytes. An instruction that takes numbers from
// all of two vectors made products 1.6 times as slow on a Zen 4. kIsPart: the last half a vector is
// zeros.
template <class Config, bool kIsPart>
LSSAR_HOST void pair_two_vectors(const Bf16* first, const Bf16* second, Words<Config>& even,
                                 Words<Config>& odd) {
  TwoHalves<Config> a = {}, b = {};
  __builtin_memcpy(&a, first, kIsPart ? sizeof(a) / 4 * 3 : sizeof(a));
  __builtin_memcpy(&b, second, kIsPart ? sizeof(b) / 4 * 3 : sizeof(b));
  constexpr TwoLaneNumbers<Config> lanes;
  even = take_in_turns<Config, 0>(a, b, lanes);
  odd = take_in_turns<Config, 4>(a, b, lanes);
}

}  // namespace lssar_device
