// Vectors whose lanes are those of two others, and what is made of them: the transpose of a square
// of numbers, and the sums of several vectors' lanes.
#pragma once

#include "templates/cpu/vector.h"

namespace lssar_device {

template <class T, T... kNumbers>
struct Numbers {};
#if __has_builtin(__make_integer_seq)
template <class Config>
using LaneNumbers = __make_integer_seq<Numbers, int, Config::kLanes>;
template <class Config>
using TwoLaneNumbers = __make_integer_seq<Numbers, int, 2 * Config::kLanes>;
#else
template <class Config>
using LaneNumbers = Numbers<int, __integer_pack(Config::kLanes)...>;
template <class Config>
using TwoLaneNumbers = Numbers<int, __integer_pack(2 * Config::kLanes)...>;
#endif

// Lane l is b's if l has the bit kBit, else a's: of the same number l, or, with kSwapsA and
// kSwapsB, of the number l ^ kBit.
template <class Config, int kBit, bool kSwapsA, bool kSwapsB, int... l>
LSSAR_HOST Floats<Config> mix_lanes(Floats<Config> a, Floats<Config> b, Numbers<int, l...>) {
  return __builtin_shufflevector(a, b,
                                 ((l & kBit) != 0 ? Config::kLanes + (kSwapsB ? l ^ kBit : l)
                                  : kSwapsA       ? l ^ kBit
                                                  : l)...);
}

// Swaps rows and lanes: x[i][l] becomes x[l][i].
template <class Config, int kBit = Config::kLanes / 2>
LSSAR_HOST void transpose(Floats<Config> (&x)[Config::kLanes]) {
  constexpr LaneNumbers<Config> lanes;
  LSSAR_UNROLL
  for (int i = 0; i < Config::kLanes; ++i) {
    if ((i & kBit) != 0) continue;
    const Floats<Config> a = x[i], b = x[i + kBit];
    x[i] = mix_lanes<Config, kBit, false, true>(a, b, lanes);
    x[i + kBit] = mix_lanes<Config, kBit, true, false>(a, b, lanes);
  }
  if constexpr (kBit > 1) transpose<Config, kBit / 2>(x);
}

// Lane l of the result is the sum of the lanes of x[l]. Overwrites x.
template <class Config, int kBit = Config::kLanes / 2>
LSSAR_HOST Floats<Config> lane_sums(Floats<Config> (&x)[Config::kLanes]) {
  constexpr LaneNumbers<Config> lanes;
  LSSAR_UNROLL
  for (int i = 0; i < kBit; ++i)
    x[i] = mix_lanes<Config, kBit, false, false>(x[i], x[i + kBit], lanes) +
           mix_lanes<Config, kBit, true, true>(x[i], x[i + kBit], lanes);
  if constexpr (kBit > 1) {
    return lane_sums<Config, kBit / 2>(x);
  } else {
    return x[0];
  }
}

}  // namespace lssar_device
