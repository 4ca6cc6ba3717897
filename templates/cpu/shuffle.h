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

// Takes the groups of four lanes of a, then those of b. a gets the even groups and b the odd ones.
template <class Config, int... l>
LSSAR_HOST void split_groups(Floats<Config>& a, Floats<Config>& b, Numbers<int, l...>) {
  const Floats<Config> even = __builtin_shufflevector(a, b, (l / 4 * 8 + l % 4)...);
  b = __builtin_shufflevector(a, b, (l / 4 * 8 + 4 + l % 4)...);
  a = even;
}
// And back.
template <class Config, int... l>
LSSAR_HOST void join_groups(Floats<Config>& a, Floats<Config>& b, Numbers<int, l...>) {
  constexpr int kLanes = Config::kLanes;
  const Floats<Config> first =
      __builtin_shufflevector(a, b, (l / 4 % 2 * kLanes + l / 8 * 4 + l % 4)...);
  b = __builtin_shufflevector(a, b, (l / 4 % 2 * kLanes + kLanes / 2 + l / 8 * 4 + l % 4)...);
  a = first;
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

template <class Config, int... l>
LSSAR_HOST Floats<Config> larger_of_pairs(Floats<Config> a, Floats<Config> b, Numbers<int, l...>) {
  return larger<Config>(__builtin_shufflevector(a, b, (2 * l)...),
                        __builtin_shufflevector(a, b, (2 * l + 1)...));
}
// The larger number of each pair of neighbours: a's pairs, and then b's.
template <class Config>
LSSAR_HOST Floats<Config> larger_of_pairs(Floats<Config> a, Floats<Config> b) {
  return larger_of_pairs<Config>(a, b, LaneNumbers<Config>{});
}

// Stores the numbers that are chosen, one behind another, and returns how many there are. It may
// overwrite kLanes numbers. `is_chosen`: -1, or 0, in each lane.
template <class Config>
LSSAR_HOST int store_one_by_one(Ints<Config> is_chosen, Ints<Config> numbers, int* to) {
  int count = 0;
  LSSAR_UNROLL
  for (int i = 0; i < Config::kLanes; ++i) {
    to[count] = numbers[i];
    count -= is_chosen[i];
  }
  return count;
}
template <class Config>
LSSAR_HOST int store_compressed(Ints<Config> is_chosen, Ints<Config> numbers, int* to) {
#if defined(__AVX512DQ__)
  const unsigned short mask = __builtin_ia32_cvtd2mask512(is_chosen);
  const Ints<Config> chosen = __builtin_ia32_compresssi512_mask(numbers, Ints<Config>{}, mask);
  __builtin_memcpy(to, &chosen, sizeof(chosen));
  return __builtin_popcount(mask);
#else
  return store_one_by_one<Config>(is_chosen, numbers, to);
#endif
}
template <class Config>
LSSAR_HOST int store_chosen(Ints<Config> is_chosen, Ints<Config> numbers, int* to) {
  if constexpr (Config::kLanes == 16) {
    return store_compressed<Config>(is_chosen, numbers, to);
  } else {
    return store_one_by_one<Config>(is_chosen, numbers, to);
  }
}

// Lane l of the result is lane l ^ kBit.
template <class Config, int kBit>
LSSAR_HOST Floats<Config> swapped_lanes(Floats<Config> x) {
  return mix_lanes<Config, kBit, true, true>(x, x, LaneNumbers<Config>{});
}

// The sum of a vector's lanes, in the order of lane_sums. All targets with this many lanes give the
// same bits.
template <class Config, int kBit = Config::kLanes / 2>
LSSAR_HOST float lane_sum(Floats<Config> x) {
  x += swapped_lanes<Config, kBit>(x);
  if constexpr (kBit > 1) return lane_sum<Config, kBit / 2>(x);
  return x[0];
}

template <class Config, int kBit = Config::kLanes / 2>
LSSAR_HOST float lane_maximum(Floats<Config> x) {
  x = larger<Config>(swapped_lanes<Config, kBit>(x), x);
  if constexpr (kBit > 1) return lane_maximum<Config, kBit / 2>(x);
  return x[0];
}

}  // namespace lssar_device
