// Vectors of the target's width. Elements in memory are loaded and stored as vectors of floats.
#pragma once

#include "templates/cpu/types.h"

namespace lssar_device {

template <class Config>
using Floats = typename VectorOf<Config::kLanes>::Floats;
template <class Config>
using Ints = typename VectorOf<Config::kLanes>::Ints;
template <class Config>
using Words = typename VectorOf<Config::kLanes>::Words;
template <class Config>
using Halves = typename VectorOf<Config::kLanes>::Halves;

// Instructions that convert fp16 take 8 numbers at a time.
using Floats8 = VectorOf<8>::Floats;
using Halves8 = VectorOf<8>::SignedHalves;

template <class Config>
LSSAR_HOST Floats<Config> splat(float x) {
  return x - Floats<Config>{};
}

// The larger number, or b if a is NaN.
template <class Config>
LSSAR_HOST Floats<Config> larger(Floats<Config> a, Floats<Config> b) {
  return a > b ? a : b;
}

template <class Config>
LSSAR_HOST Ints<Config> lane_numbers() {
  Ints<Config> lanes;
  LSSAR_UNROLL
  for (int i = 0; i < Config::kLanes; ++i) lanes[i] = i;
  return lanes;
}

// Loads kLanes floats with a float's alignment. kIsHalf: half as many, followed by zeros.
template <class Config, bool kIsHalf = false>
LSSAR_HOST Floats<Config> load(const float* from) {
  Floats<Config> x = {};
  __builtin_memcpy(&x, from, kIsHalf ? sizeof(x) / 2 : sizeof(x));
  return x;
}

template <class Config, bool kIsHalf = false>
LSSAR_HOST Floats<Config> load(const Bf16* from) {
  Halves<Config> bits = {};
  __builtin_memcpy(&bits, from, kIsHalf ? sizeof(bits) / 2 : sizeof(bits));
  return (Floats<Config>)(__builtin_convertvector(bits, Words<Config>) << 16);
}

template <class Config, bool kIsHalf = false>
LSSAR_HOST Floats<Config> load(const Fp16* from) {
  Floats<Config> x = {};
  LSSAR_UNROLL
  for (int i = 0; i < (kIsHalf ? Config::kLanes / 2 : Config::kLanes); i += 8) {
    Halves8 bits;
    __builtin_memcpy(&bits, from + i, sizeof(bits));
    const Floats8 part = __builtin_ia32_vcvtph2ps256(bits);
    __builtin_memcpy((float*)&x + i, &part, sizeof(part));
  }
  return x;
}

template <class Config, bool kIsHalf = false>
LSSAR_HOST void store(float* to, Floats<Config> x) {
  __builtin_memcpy(to, &x, kIsHalf ? sizeof(x) / 2 : sizeof(x));
}

// Rounds to nearest even; NaN stays NaN.
template <class Config>
LSSAR_HOST Halves<Config> rounded_bf16(Floats<Config> x) {
  const Words<Config> bits = (Words<Config>)x;
  const Words<Config> nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words<Config> nan = Words<Config>{} + 0x7fffu;
  return __builtin_convertvector(x == x ? nearest : nan, Halves<Config>);
}

template <class Config, bool kIsHalf = false>
LSSAR_HOST void store(Bf16* to, Floats<Config> x) {
  const Halves<Config> rounded = rounded_bf16<Config>(x);
  __builtin_memcpy(to, &rounded, kIsHalf ? sizeof(rounded) / 2 : sizeof(rounded));
}

template <class Config, bool kIsHalf = false>
LSSAR_HOST void store(Fp16* to, Floats<Config> x) {
  LSSAR_UNROLL
  for (int i = 0; i < (kIsHalf ? Config::kLanes / 2 : Config::kLanes); i += 8) {
    Floats8 part;
    __builtin_memcpy(&part, (const float*)&x + i, sizeof(part));
    const Halves8 rounded = (Halves8)__builtin_ia32_vcvtps2ph256(part, 0);
    __builtin_memcpy(to + i, &rounded, sizeof(rounded));
  }
}

}  // namespace lssar_device
