// A block of the forward: its working memory, its rows, and what it writes of them.
#pragma once

#include "templates/cpu/product.h"

namespace lssar_device {

// A block's working memory, which the device gives to each thread.
template <class Config>
struct ForwardScratch {
  alignas(64) float scores[Config::kGroups * Config::kRows *
                           (Config::kKeptKeys + Config::kBlockKeys)];
  alignas(64) float outputs[Config::kGroups * Config::kRows * Config::kHeadDimVPadded];
  alignas(64) float queries[Config::kGroups * Config::kRows * Config::kHeadDim];
};

// What a group of rows has of `scores`: [panels][kRows][kPanelKeys]. The activations of the first
// kKeptKeys keys stay there, and all later blocks of keys have one place.
template <class Config>
constexpr i64 kGroupScores = i64{Config::kRows} * (Config::kKeptKeys + Config::kBlockKeys);
template <class Config>
LSSAR_HOST float* scores_of(ForwardScratch<Config>& scratch, i64 first_key) {
  const i64 kept = first_key < Config::kKeptKeys ? first_key : i64{Config::kKeptKeys};
  return scratch.scores + kept * Config::kRows;
}

// kSumsX: follows ForwardScratch. u^(p - 1) of a block of keys, and values times these.
template <class Config>
struct SlopeScratch {
  alignas(64) float slopes[Config::kGroups * Config::kRows * Config::kBlockKeys];
  alignas(64) float outputs[Config::kGroups * Config::kRows * Config::kHeadDimVPadded];
};
template <class Config>
LSSAR_HOST SlopeScratch<Config>& slope_scratch(ForwardScratch<Config>& scratch) {
  return *(SlopeScratch<Config>*)(&scratch + 1);
}

// kIsInvariant: follows ForwardScratch and SlopeScratch. Their `outputs` then have the sums of one
// block of keys only, and `sums` adds these up in the order of the keys. So a block's sums do not
// depend on the blocks before it.
//
// kSumsX: the second half of `sums` is that of SlopeScratch.
template <class Config>
struct BlockTotals {
  static constexpr int kFloats = Config::kGroups * Config::kRows * Config::kHeadDimVPadded;
  alignas(64) float sums[(Config::kSumsX ? 2 : 1) * kFloats];
};
template <class Config>
LSSAR_HOST BlockTotals<Config>& block_totals(ForwardScratch<Config>& scratch) {
  if constexpr (Config::kSumsX) return *(BlockTotals<Config>*)(&slope_scratch<Config>(scratch) + 1);
  return *(BlockTotals<Config>*)(&scratch + 1);
}

// A row's weighted values, summed over all keys.
template <class Config>
LSSAR_HOST float* sums_of_row(ForwardScratch<Config>& scratch, int row) {
  float* sums = scratch.outputs;
  if constexpr (Config::kIsInvariant) sums = block_totals<Config>(scratch).sums;
  return sums + row * Config::kHeadDimVPadded;
}
template <class Config>
LSSAR_HOST float* slope_sums_of_row(ForwardScratch<Config>& scratch, int row) {
  float* sums = slope_scratch<Config>(scratch).outputs;
  if constexpr (Config::kIsInvariant)
    sums = block_totals<Config>(scratch).sums + BlockTotals<Config>::kFloats;
  return sums + row * Config::kHeadDimVPadded;
}

// A row's weights of a block of keys: those of key j are at
// first[j / kPanelKeys * panel_pitch + j % kPanelKeys].
struct RowWeights {
  const float* first;
  i64 panel_pitch;
};

// Sums a row's values again, without those of weight 0.
template <class Config>
LSSAR_CALLED void sum_row_again(const RowWeights& weights, const typename Config::Element* values,
                                i64 row_stride, int keys, float* outputs) {
  constexpr int kWhole = Config::kHeadDimV / Config::kLanes * Config::kLanes;
  for (int d = 0; d < Config::kHeadDimVPadded; ++d) outputs[d] = 0.0f;
  for (int key = 0; key < keys; ++key, values += row_stride) {
    const float weight = weights.first[key / Config::kPanelKeys * weights.panel_pitch +
                                       key % Config::kPanelKeys];
    if (weight == 0.0f) continue;
    for (int d = 0; d < kWhole; d += Config::kLanes)
      store<Config>(outputs + d,
                    splat<Config>(weight) * load<Config>(values + d) + load<Config>(outputs + d));
    if constexpr (kWhole != Config::kHeadDimV)
      store<Config>(outputs + kWhole, splat<Config>(weight) * load<Config, true>(values + kWhole) +
                                          load<Config>(outputs + kWhole));
  }
}

// kIsInvariant: corrects a row's sum of values over a block of keys. Values were read for all rows
// that share them, so some have the weight 0 here. Such a term changes nothing unless the value is
// NaN or infinite. Then the sum is NaN, and is made again without terms of weight 0.
template <class Config>
LSSAR_HOST void leave_out_weightless(const RowWeights& weights,
                                     const typename Config::Element* values, i64 row_stride,
                                     int keys, float* outputs) {
  Ints<Config> is_number = lane_numbers<Config>() >= 0;
  for (int d = 0; d < Config::kHeadDimVPadded; d += Config::kLanes) {
    const Floats<Config> x = load<Config>(outputs + d);
    is_number &= x == x;
  }
  int all = -1;
  LSSAR_UNROLL
  for (int i = 0; i < Config::kLanes; ++i) all &= is_number[i];
  if (all == 0) sum_row_again<Config>(weights, values, row_stride, keys, outputs);
}

// The least weight whose value counts. The largest weight of a row is 1, so what is left out is
// together below 2^-24 of the sum of the weights in fp32, and below 2^-12 in 16 bits.
template <class Config>
LSSAR_HOST float least_weight(i64 visible) {
  constexpr float kLeast = 0x1p-24f, kLeastSum = 0x1p-12f;
  if constexpr (sizeof(typename Config::Element) == sizeof(float)) return kLeast / (float)visible;
  const float of_sum = kLeastSum / (float)visible;
  return of_sum < kLeast ? of_sum : kLeast;
}

// kIsInvariant: weights below the row's own cut become 0. So the rows that share a value do not
// decide whether it counts.
template <class Config>
LSSAR_HOST Floats<Config> cut_weights(Floats<Config> weights, float least) {
  return weights < least ? Floats<Config>{} : weights;
}

// Below all weights that are not cut, so that each of these is live.
constexpr float kLeastOfAll = 0x1p-60f;

// kIsInvariant: a score of -infinity, which hidden keys have, adds nothing at all to a row's sum.
template <class Config>
LSSAR_HOST Floats<Config> seen_activation(Floats<Config> score, Floats<Config> activation) {
  if constexpr (!Config::kIsInvariant) return activation;
  return score == -infinity() ? Floats<Config>{} : activation;
}

// u of activations. A NaN becomes 0: a row that saw one is NaN by its statistics.
template <class Config>
LSSAR_HOST Floats<Config> base_of(Floats<Config> activation, const WeightScale& scale) {
  return larger<Config>((activation - scale.origin) * scale.slope + scale.intercept,
                        Floats<Config>{});
}

// What pass 1 computes for a row, and how pass 2 weighs the row's keys.
struct RowState {
  i64 visible;          // N_i
  i64 seen;             // keys of the call that the row sees, from the first on
  double sum;           // of activations, in bits: R
  double weights;       // their sum: zs
  double slopes;        // the sum of u^(p - 1)
  float largest_score;  // in bits
  float m;              // largest U
  float score_scale;    // kHasPairs: c_i log2(e) / |q_i|
  WeightScale scale;
};

// A row that saw a NaN has a NaN in every number that depends on its keys.
LSSAR_HOST RowStats row_stats(const RowState& row) {
  const bool is_bad = row.sum != row.sum || row.m != row.m;
  return {(float)(row.sum * kLn2), row.m, is_bad ? quiet_nan() : (float)row.weights,
          row.largest_score};
}

// In place of an activation: far below those that there are, so that u is 0 in every row. With an
// activation of 0 and a tiny offset u might round to more than 0.
constexpr float kHidden = -1.0f;

// Derives from a row's sum and largest score how its activations become weights. Dead rows and rows
// without keys have no weights. If a row saw a NaN, its sum is NaN.
template <class Config>
LSSAR_HOST void prepare_weights(RowState& row) {
  if (row.visible == 0) {
    row.largest_score = 0.0f;
    return;
  }
  const double largest =
      softplus_bits<Config>(splat<Config>(row.largest_score))[0];  // computed as in the panels
  row.m = (float)(largest * (double)row.visible / row.sum - row_offset<Config>(row.visible));
  if (!(row.m > kDeadRow)) return;
  row.scale = weight_scale<Config>(row_stats(row), row.visible);
}

// Writes X = (sum_j u^(p - 1) v_j - T o) / (m zs). T is the sum of u^(p - 1), and o is not rounded
// to its type. Overwrites `slope_outputs`. A row without output has X = 0.
template <class Config>
LSSAR_HOST void store_x(const AttentionParams& params, i64 flat, const RowState& row,
                        const float* outputs, float* slope_outputs, float zs) {
  const bool is_empty = zs == 0.0f;
  const float scale = is_empty ? 0.0f : 1.0f / zs;
  const float share = (float)row.slopes * scale;
  for (int d = 0; d < Config::kHeadDimVPadded; ++d) slope_outputs[d] -= share * outputs[d];
  using SavedX = typename Config::SavedX;
  store_scaled<Config>((SavedX*)params.saved_x + flat * Config::kHeadDimV, slope_outputs,
                       scale / row.m, is_empty);
}

// Writes a row's output and statistics. `outputs`: sums that are not divided by the sum of weights.
template <class Config>
LSSAR_HOST void store_output(const AttentionParams& params, const RowPlace& place, i64 row,
                             const RowStats& saved, const float* outputs) {
  const bool is_empty = saved.zs == 0.0f;  // then o is 0 even if a value is NaN
  const float scale = is_empty ? 0.0f : 1.0f / saved.zs;
  auto* o = row_pointer<typename Config::Element>(params.o, place.batch, place.head, row);
  store_scaled<Config>(o, outputs, scale, is_empty);
  const i64 flat = flat_row<Config>(params, place, row);
  if constexpr (Config::kIsTraining && Config::kSavesO)
    save_rounding<Config>(params, flat, o, outputs, scale, is_empty);
  if (params.saved_stats != nullptr) store_stats<Config>(params, flat, saved);
}

template <class Config>
LSSAR_HOST void store_outputs(const AttentionParams& params, const RowPlace& place, int num_rows,
                              const RowState* rows, ForwardScratch<Config>& scratch) {
  const i64 queries = seq_q<Config>(params);
  for (int r = 0; r < num_rows && place.first_row + r < queries; ++r) {
    const RowStats saved = row_stats(rows[r]);
    const float* const outputs = sums_of_row<Config>(scratch, r);
    const i64 row = place.first_row + r;
    store_output<Config>(params, place, row, saved, outputs);
    if constexpr (Config::kSumsX)
      store_x<Config>(params, flat_row<Config>(params, place, row), rows[r], outputs,
                      slope_sums_of_row<Config>(scratch, r), saved.zs);
  }
}

}  // namespace lssar_device
