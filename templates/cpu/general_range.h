// The two passes of a forward whose score function is given as expressions, as separate kernels
// over a range of all keys. The caller merges the ranges by the rules of docs/math.md.
//
//   row_sums:      planes of row_stats: 0 sum_j a_ij (kActivationSum 2: |a_ij|), in units of
//                  2^(plane 2); 1 the power's largest -a_ij; 2 an exponential's largest score, else
//                  0; 3 the power's largest a_ij, or as plane 2
//   (the caller):  takes maxima of planes 1 to 3, and sums plane 0 in units of the largest plane 2
//   weighted_sum:  sum_j w_ij v_j, undivided; plane 2 gets its divisor, the other planes what the
//                  forward for training saves
//   (the caller):  sums both over the ranges; o_i is their quotient
//
// Blocks and their memory are those of general_forward.h.
#pragma once

#include "templates/cpu/general_forward.h"

namespace lssar_device {

template <class Config>
LSSAR_HOST RowStats range_sums(const GeneralRow& row) {
  constexpr bool kHasExtremes = Config::kSecondStage == 1 && !Config::kIsExponential;
  if (row.visible == 0) return {0.0f, 0.0f, 0.0f, 0.0f};
  const float score = Config::kIsExponential ? row.largest_score : 0.0f;
  return {(float)row.sum, kHasExtremes ? -row.lowest : 0.0f, score,
          kHasExtremes ? row.highest : score};
}

template <class Config>
LSSAR_HOST void read_sums(const RowStats& merged, GeneralRow& row) {
  row.sum = merged.r;
  if constexpr (Config::kIsExponential) {
    row.largest_score = merged.zs;
  } else if constexpr (Config::kSecondStage == 1) {
    row.lowest = -merged.m;
    row.highest = merged.largest_score;
  }
}

// The range's part of the row's divisor. If the divisor is not a sum, that is the range's share of
// the row's keys. The sink is divided among ranges by the same share.
template <class Config>
LSSAR_HOST float range_divisor(const GeneralRow& row) {
  if (row.normalizer == 0.0f) return 0.0f;
  if (is_bad<Config>(row)) return quiet_nan();
  const float share = (float)row.seen / (float)row.visible;
  if constexpr (Config::kDivisorSum == 0) return share;
  double weights = row.weights;
  if constexpr (Config::kHasSink && Config::kSecondStage == 0) {
    if (share != 0.0f)
      weights += share * sink_activation<Config>(row.sink_logit, row.visible, origin_of(row));
  }
  return (float)weights;
}

// What weighted values are multiplied by. A NaN in any range makes the row NaN in all of them.
template <class Config>
LSSAR_HOST float range_scale(const GeneralRow& row, float z) {
  if (z != z) return z;
  return Config::kDivisorSum == 0 && Config::kSecondStage == 0 ? 1.0f / row.normalizer : 1.0f;
}

template <class Config>
LSSAR_HOST void general_row_sums(const AttentionParams& params, u32 block, void* memory) {
  for_rows<Config>(params, block, memory, [](auto& rows) LSSAR_WIDE {
    rows.sum_activations();
    rows.for_each_row([&](const GeneralRow& row, i64 flat, const float*) LSSAR_WIDE {
      store_stats<Config>(rows.params, flat, range_sums<Config>(row));
    });
  });
}

template <class Config>
LSSAR_HOST void general_weighted_sum(const AttentionParams& params, u32 block, void* memory) {
  for_rows<Config>(params, block, memory, [](auto& rows) LSSAR_WIDE {
    rows.for_each_row([&](GeneralRow& row, i64 flat, const float*) LSSAR_WIDE {
      read_sums<Config>(load_stats<Config>(rows.params, flat), row);
    });
    rows.finish_rows();
    rows.add_values();
    rows.for_each_row([&](GeneralRow& row, i64 flat, const float* outputs) LSSAR_WIDE {
      const float z = range_divisor<Config>(row);
      store_scaled<Config>(rows.params.partial_o + flat * Config::kHeadDimV, outputs,
                           range_scale<Config>(row, z), row.normalizer == 0.0f);
      store_stats<Config>(rows.params, flat, rows.stats_of(row, z));
    });
  });
}

}  // namespace lssar_device
