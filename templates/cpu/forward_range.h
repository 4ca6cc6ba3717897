// The two passes of the forward as separate kernels over a range of all keys. The caller merges the
// results of the ranges by sums and a maximum, so keys may be split over machines or calls.
//
//   row_sums:      R_i = sum_j softplus(S_ij) and the largest score, over the call's keys
//   (the caller):  sums R_i and takes the maximum of the largest scores over the ranges
//   weighted_sum:  sum_j w_ij v_j, undivided, and zs_i = sum_j w_ij over the call's keys; m_i
//   (the caller):  sums both over the ranges; o_i is their quotient
//
// Blocks and their memory are those of forward.h.
#pragma once

#include "templates/cpu/forward.h"

namespace lssar_device {

template <class Config>
LSSAR_HOST void row_sums(const AttentionParams& params, u32 block, void* memory) {
  ForwardScratch<Config>& scratch = *(ForwardScratch<Config>*)memory;
  const RowPlace place = query_place<Config, kBlockRows<Config>>(params, block);
  ForwardBlock<Config> rows{params, place, scratch, {}, 0, 0, 0};
  rows.load();
  rows.sum_activations();
  const i64 queries = seq_q<Config>(params);
  for (int r = 0; r < rows.num_rows && place.first_row + r < queries; ++r) {
    const RowState& row = rows.rows[r];
    const RowPlanes<Config> stats(params, flat_row<Config>(params, place, place.first_row + r));
    stats[0] = (float)(row.sum * kLn2);
    stats[3] = row.visible == 0 ? 0.0f : row.largest_score;
  }
}

// A NaN in any range shows in the merged sums. A clamp hides it from the weights, so the row
// becomes NaN here. Where no key of the range has a weight, the sums are 0 even if a value is NaN.
template <class Config>
LSSAR_HOST void store_partial(const AttentionParams& params, i64 flat, const RowState& row,
                              const float* outputs) {
  const RowStats saved = row_stats(row);
  const RowPlanes<Config> stats(params, flat);
  stats[1] = saved.m;
  stats[2] = saved.zs;
  store_scaled<Config>(params.partial_o + flat * Config::kHeadDimV, outputs,
                       saved.zs != saved.zs ? quiet_nan() : 1.0f, saved.zs == 0.0f);
}

template <class Config>
LSSAR_HOST void weighted_sum(const AttentionParams& params, u32 block, void* memory) {
  ForwardScratch<Config>& scratch = *(ForwardScratch<Config>*)memory;
  const RowPlace place = query_place<Config, kBlockRows<Config>>(params, block);
  ForwardBlock<Config> rows{params, place, scratch, {}, 0, 0, 0};
  rows.load();
  const i64 queries = seq_q<Config>(params);
  const i64 flat = flat_row<Config>(params, place, place.first_row);
  for (int r = 0; r < rows.num_rows && place.first_row + r < queries; ++r) {
    const RowPlanes<Config> stats(params, flat + r);
    rows.rows[r].sum = stats[0] / kLn2;
    rows.rows[r].largest_score = stats[3];
  }
  rows.add_values();
  for (int r = 0; r < rows.num_rows && place.first_row + r < queries; ++r)
    store_partial<Config>(params, flat + r, rows.rows[r],
                          scratch.outputs + r * Config::kHeadDimVPadded);
}

}  // namespace lssar_device
