// Forward of score functions given as expressions (general_scale.h says which constants choose
// what).
//
//   without pass 1:  a_ij = phi(s_ij),  o_i = sum_j a_ij v_j / r_i;  r_i is summed along
//   with pass 1:     r_i first; then weights from N_i a_ij / r_i, divided by their sum at the end
//
// An exponential over a sum has the largest score taken out: without pass 1 the largest so far, and
// sums are multiplied along. Blocks and their memory are those of forward.h.
#pragma once

#include "templates/cpu/forward_output.h"
#include "templates/cpu/general_rows.h"

namespace lssar_device {

// Loads queries times c_i / |q_i| as [kRows][head_dim], or as pairs. Rows past the end see no keys.
template <class Config, int kRows>
LSSAR_HOST void load_general_queries(const AttentionParams& params, const RowPlace& place,
                                     float* queries, GeneralRow (&rows)[kRows]) {
  for (int r = 0; r < kRows; ++r) {
    const i64 i = place.first_row + r;
    GeneralRow& row = rows[r];
    row = GeneralRow{};
    row.visible = i < seq_q<Config>(params) ? visible_keys<Config>(params, i) : 0;
    row.seen = seen_keys<Config>(params, row.visible);
    if constexpr (Config::kHasWindow)
      row.seen = row.visible == 0 ? 0 : seen_window<Config>(params, i).count();
    row.largest_score = row.highest = -infinity();
    row.lowest = infinity();
    row.score_scale = load_query<Config>(
        params, place, i, row.visible, queries + r * Config::kHeadDim,
        [&](float squares)
            LSSAR_WIDE { return general_score_scale<Config>(squares, row.visible); });
    if (row.visible == 0) continue;
    row.bias = (float)Config::score_bias(row.visible);
    if constexpr (Config::kReadsSink) row.sink_logit = params.sink[place.head];
  }
}

// A block of rows and its walk over the keys.
template <class Config, int kRows>
struct GeneralBlock {
  const AttentionParams& params;
  const RowPlace& place;
  ForwardScratch<Config>& scratch;
  GeneralRow rows[kRows];
  i64 seen;  // keys of the call that at least one row sees

  // The scores of `row` from first_key on. Those of the first kKeptKeys keys have memory of their
  // own.
  LSSAR_HOST typename Select<Config::kHasWindow, WindowScores, ScoreRow>::Type scores_of(
      int row, i64 first_key) const {
    if constexpr (Config::kHasWindow) {
      return window_scores_of(row, first_key);
    } else {
      const i64 kept = first_key < Config::kKeptKeys ? first_key : i64{Config::kKeptKeys};
      const i64 left = seen - first_key;
      return {scratch.scores + kept * kRows + row * Config::kPanelKeys, first_key,
              left < Config::kBlockKeys ? (int)left : Config::kBlockKeys,
              kRows * Config::kPanelKeys};
    }
  }

  LSSAR_HOST KeyWalk<Config, Config::kBlockKeys,
                     Config::kIsInvariant ? Config::kBlockKeys : Config::kPanelKeys>
  walk() const {
    return {params, place, kRows};
  }
  // Whether the pass with values computes the block's activations.
  LSSAR_HOST bool is_again(i64 key) const {
    return !Config::kHasPassOne || walk().place_of(key) >= Config::kKeptKeys;
  }
  LSSAR_HOST WindowScores window_scores_of(int row, i64 first_key) const {
    const i64 slot = walk().place_of(first_key), left = walk().end_of(first_key) - first_key;
    const i64 kept = slot < Config::kKeptKeys ? slot : i64{Config::kKeptKeys};
    return {
        {scratch.scores + kept * kRows + row * Config::kPanelKeys, first_key,
         left < Config::kBlockKeys ? (int)left : Config::kBlockKeys, kRows * Config::kPanelKeys},
        seen_window<Config>(params, place.first_row + row)};
  }

  // Computes activations of kBlockKeys keys. Those of an exponential stay scores.
  LSSAR_HOST void activate_block(i64 first_key) const {
    const i64 slice = place.batch * params.kv_heads + place.kv_head;
    const float* panel = key_panel<Config>(params, slice, first_key / Config::kPanelKeys);
    const ScoreRow all = scores_of(0, first_key);
    float* to = all.first;
    for (int key = 0; key < all.keys; key += Config::kPanelKeys) {
      Floats<Config> acc[kRows][Config::kPanelVectors];
      multiply_keys<Config, kRows, Config::kHeadDim>(scratch.queries, panel, acc);
      if constexpr (Config::kHasPairs)
        scale_products<Config>(
            panel, [&](int r) LSSAR_WIDE { return rows[r].score_scale; }, acc);
      LSSAR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        LSSAR_UNROLL
        for (int c = 0; c < Config::kPanelVectors; ++c)
          store<Config>(to + r * Config::kPanelKeys + c * Config::kLanes, acc[r][c]);
      }
      panel += Config::kPanelRows * Config::kPanelKeys;
      to += all.pitch;
    }
    if constexpr (Config::kChangesScores) {
      for (int r = 0; r < kRows; ++r)
        cap_and_lower<Config>(scores_of(r, first_key), rows[r],
                              alibi_row<Config>(params, place.head, place.first_row + r));
    }
    if constexpr (!Config::kIsExponential) {
      for (int r = 0; r < kRows; ++r) activate<Config>(scores_of(r, first_key), rows[r]);
    }
  }

  LSSAR_HOST void sum_activations() {
    for (i64 key = Config::kHasWindow ? walk().first() : 0; key < seen;
         key += Config::kHasWindow ? walk().step(key) : Config::kBlockKeys) {
      activate_block(key);
      for (int r = 0; r < kRows; ++r) add_activations<Config>(scores_of(r, key), rows[r]);
    }
  }

  LSSAR_HOST void finish_rows() {
    for (GeneralRow& row : rows) finish_sums<Config>(row);
  }

  // kIsExponential: raises the rows' largest scores while sums are not known.
  LSSAR_HOST void rescale(int r, const ScoreRow& scores) {
    const float factor = raise_largest<Config>(scores, rows[r]);
    rows[r].weights *= factor;
    float* const outputs = sums_of_row<Config>(scratch, r);
    for (int d = 0; d < Config::kHeadDimVPadded; ++d) outputs[d] *= factor;
  }

  LSSAR_HOST void add_values() {
    using Element = typename Config::Element;
    for (int i = 0; i < kRows * Config::kHeadDimVPadded; ++i) {
      scratch.outputs[i] = 0.0f;
      if constexpr (Config::kIsInvariant) sums_of_row<Config>(scratch, 0)[i] = 0.0f;
    }
    for (i64 key = Config::kHasWindow ? walk().first() : 0; key < seen;
         key += Config::kHasWindow ? walk().step(key) : Config::kBlockKeys) {
      if (Config::kHasWindow ? is_again(key) : !Config::kHasPassOne || key >= Config::kKeptKeys)
        activate_block(key);
      for (int r = 0; r < kRows; ++r) {
        const typename Select<Config::kHasWindow, WindowScores, ScoreRow>::Type scores =
            scores_of(r, key);
        if constexpr (Config::kIsExponential && !kKnowsSums<Config>) rescale(r, scores);
        weigh<Config>(scores, rows[r]);
      }
      const ScoreRow weights = scores_of(0, key);
      const Element* const values =
          row_pointer<const Element>(params.v, place.batch, place.kv_head, key);
      if constexpr (Config::kHasWindow) {
        multiply_seen_values<Config, kRows, Config::kHeadDimV, Config::kPanelKeys,
                             Config::kPanelKeys, Config::kHasPairs>(
            seen_by_some<Config>(params, place.first_row, kRows), key, weights.first, values,
            params.v.row_stride, weights.keys, scratch.outputs);
      } else {
        multiply_values<Config, kRows, Config::kHeadDimV, Config::kPanelKeys, Config::kPanelKeys,
                        1, Config::kHasPairs>(weights.first, values, params.v.row_stride,
                                              weights.keys, scratch.outputs);
      }
      if constexpr (Config::kIsInvariant) add_block_sums(weights, values);
    }
  }

  // kIsInvariant: the sums of a block of keys -> those of all keys.
  LSSAR_HOST void add_block_sums(const ScoreRow& weights,
                                 const typename Config::Element* values) const {
    for (int r = 0; r < kRows; ++r) {
      float* const sums = scratch.outputs + r * Config::kHeadDimVPadded;
      float* const totals = sums_of_row<Config>(scratch, r);
      leave_out_weightless<Config>({weights.first + r * Config::kPanelKeys, weights.pitch}, values,
                                   params.v.row_stride, weights.keys, sums);
      for (int d = 0; d < Config::kHeadDimVPadded; ++d) {
        totals[d] += sums[d];
        sums[d] = 0.0f;
      }
    }
  }

  // `z`: what the row's output is to be divided by.
  LSSAR_HOST RowStats stats_of(const GeneralRow& row, float z) const {
    float largest = 0.0f;
    if constexpr (Config::kIsExponential) {
      largest = origin_of(row);
    } else if constexpr (Config::kSecondStage == 1) {
      largest = row.normalizer == 0.0f ? 0.0f : extreme_activation<Config>(row);
    }
    return {row.normalizer, row.m, z, largest};
  }

  // Calls act(row, its index among saved rows, its weighted values) for all rows that exist.
  template <class Act>
  LSSAR_HOST void for_each_row(const Act& act) {
    const i64 queries = seq_q<Config>(params);
    const i64 first = flat_row<Config>(params, place, place.first_row);
    for (int r = 0; r < kRows && place.first_row + r < queries; ++r)
      act(rows[r], first + r, sums_of_row<Config>(scratch, r));
  }

  LSSAR_HOST void store_outputs() {
    using Element = typename Config::Element;
    i64 i = place.first_row;
    for_each_row([&](GeneralRow& row, i64 flat, const float* outputs) LSSAR_WIDE {
      const float z = row_divisor<Config>(row);
      const float scale = output_scale<Config>(row, z);
      const bool is_empty = z == 0.0f;  // then o is 0 even if a value is NaN
      Element* const o = row_pointer<Element>(params.o, place.batch, place.head, i++);
      store_scaled<Config>(o, outputs, scale, is_empty);
      if constexpr (Config::kIsTraining && Config::kSavesO)
        save_rounding<Config>(params, flat, o, outputs, scale, is_empty);
      if (params.saved_stats != nullptr) store_stats<Config>(params, flat, stats_of(row, z));
    });
  }

  LSSAR_HOST void load() {
    load_general_queries<Config, kRows>(params, place, scratch.queries, rows);
    if constexpr (Config::kHasWindow) {
      seen = walk().keys.end;
      return;
    }
    seen = 0;
    for (int r = 0; r < kRows; ++r) seen = rows[r].seen > seen ? rows[r].seen : seen;
  }
};

// Loads the rows of a block and calls act(them). Few rows, as in decoding, are computed one by one,
// because a full block would compute rows that nobody needs. The bits are the same either way.
template <class Config, class Act>
LSSAR_HOST void for_rows(const AttentionParams& params, u32 block, void* memory, const Act& act) {
  ForwardScratch<Config>& scratch = *(ForwardScratch<Config>*)memory;
  const i64 queries = seq_q<Config>(params);
  RowPlace place = query_place<Config, Config::kRows>(params, block);
  if (2 * (queries - place.first_row) >= Config::kRows) {
    GeneralBlock<Config, Config::kRows> rows{params, place, scratch, {}, 0};
    rows.load();
    act(rows);
    return;
  }
  for (; place.first_row < queries; ++place.first_row) {
    GeneralBlock<Config, 1> rows{params, place, scratch, {}, 0};
    rows.load();
    act(rows);
  }
}

template <class Config>
LSSAR_HOST void general_forward(const AttentionParams& params, u32 block, void* memory) {
  for_rows<Config>(params, block, memory, [](auto& rows) LSSAR_WIDE {
    if constexpr (Config::kHasPassOne) {
      rows.sum_activations();
      rows.finish_rows();
    }
    rows.add_values();
    rows.store_outputs();
  });
}

}  // namespace lssar_device
