// The forward kernel. A block has a few query rows of one head. Pass 1 sums activations. Pass 2
// turns them into weights and multiplies values by these. The activations of the first keys stay in
// the core's cache between the passes; the others are computed again. For training it also saves
// rows, and X if the backward wants it, for which it multiplies values by U^(p - 1) too.
#pragma once

#include "templates/cpu/forward_activations.h"

namespace lssar_device {

// Whether keys are listed by u^(p - 1), which the sum of X needs. In fp32 the plain forward does so
// too, and both have the same o.
template <class Config>
constexpr bool kListsSlopes =
    Config::kSumsX || (Config::kSkipsKeys && sizeof(typename Config::Element) == sizeof(float));

// u^p of a row's activations.
//
// kListsSlopes: also u^(p - 1), in `slope`.
template <class Config>
LSSAR_HOST Floats<Config> weight_of(Floats<Config> activation, const WeightScale& scale,
                                    Floats<Config>& slope) {
  const Floats<Config> u = base_of<Config>(activation, scale);
  if constexpr (!kListsSlopes<Config>) return Config::power(u);
  slope = Config::power_slope(u);
  return u * slope;
}

// Lists the keys of a panel, or pairs of keys, that have a number of at least `least`.
template <class Config>
LSSAR_HOST void list_live_keys(const Floats<Config> (&most)[Config::kPanelVectors], int first_key,
                               int keys, float least, LiveSteps<Config::kBlockKeys>& live) {
  constexpr int kTogether = Config::kHasPairs ? 2 : 1;
  constexpr int kVectors = (Config::kPanelVectors + kTogether - 1) / kTogether;
  LSSAR_UNROLL
  for (int c = 0; c < kVectors; ++c) {
    Floats<Config> x = most[c * kTogether];
    if constexpr (Config::kHasPairs) {
      constexpr int kLast = Config::kPanelVectors - 1;
      x = larger_of_pairs<Config>(x, c * 2 < kLast ? most[c * 2 + 1] : Floats<Config>{});
    }
    const Ints<Config> place = lane_numbers<Config>() + c * Config::kLanes;
    const Ints<Config> step = place * kTogether + first_key;
    const Ints<Config> is_live = (x >= least) & (step < keys);
    store_chosen<Config>(is_live, step, live.steps + live.count);
    live.count +=
        store_chosen<Config>(is_live, place + first_key * Config::kRows, live.places + live.count);
  }
}

// Within windows: no row of the block may see one key of a pair, and its value may be NaN. Then the
// value of the other key is used for both. The step of such a pair becomes ~(the other key's step).
template <class Config>
LSSAR_HOST void leave_out_unseen(const VisibleKeys& seen, i64 first_key,
                                 LiveSteps<Config::kBlockKeys>& live) {
  for (int i = 0; i < live.count; ++i) {
    const i64 key = first_key + live.steps[i];
    const bool sees_first = seen.has_some(key, 1);
    if (sees_first && seen.has_some(key + 1, 1)) continue;
    live.steps[i] = ~(live.steps[i] + (sees_first ? 0 : 1));
  }
}

// Turns a group's activations of a block of keys into weights, in place, and adds them to the rows'
// sums.
//
// kSumsX: also writes u^(p - 1) to `slopes`. kSkipsKeys: lists the keys for which one row's weight,
// or u^(p - 1), is at least `least`.
template <class Config>
LSSAR_HOST void weigh_block(int keys, RowState* rows, float* scores, float* slopes, float least,
                            LiveSteps<Config::kBlockKeys>& live) {
  constexpr int kRows = Config::kRows, kVectors = Config::kPanelVectors;
  Floats<Config> weight_sums[kRows] = {};
  [[maybe_unused]] Floats<Config> slope_sums[kRows] = {};
  [[maybe_unused]] float cuts[kRows];
  for (int r = 0; Config::kIsInvariant && r < kRows; ++r)
    cuts[r] = least_weight<Config>(rows[r].visible);
  live.count = 0;
  for (int key = 0; key < keys; key += Config::kPanelKeys) {
    Floats<Config> most[kVectors] = {};
    LSSAR_UNROLL
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, at = key * kRows + i * Config::kLanes;
      const int row = key * kRows + r * Config::kPanelKeys;
      Floats<Config> slope = {};
      Floats<Config> weight =
          weight_of<Config>(load<Config>(scores + at), rows[r].scale, slope);
      weight_sums[r] += weight;
      if constexpr (Config::kIsInvariant) weight = cut_weights<Config>(weight, cuts[r]);
      store_weights<Config>(scores + row, i % kVectors, weight);
      if constexpr (Config::kSumsX) {
        slope_sums[r] += slope;
        if constexpr (Config::kIsInvariant) slope = cut_weights<Config>(slope, cuts[r]);
        store_weights<Config>(slopes + row, i % kVectors, slope);
      }
      most[i % kVectors] =
          larger<Config>(kListsSlopes<Config> ? slope : weight, most[i % kVectors]);
    }
    if constexpr (Config::kSkipsKeys) list_live_keys<Config>(most, key, keys, least, live);
  }
  for (int r = 0; r < kRows; ++r) {
    rows[r].weights += lane_sum<Config>(weight_sums[r]);
    if constexpr (Config::kSumsX) rows[r].slopes += lane_sum<Config>(slope_sums[r]);
  }
}

// Adds values times weights of a block of keys to the outputs of all groups.
template <class Config>
LSSAR_HOST void add_values(const AttentionParams& params, const RowPlace& place, int groups,
                           i64 first_key, int keys, const float* weights, i64 group_weights,
                           const LiveSteps<Config::kBlockKeys>* live, float* outputs) {
  using Element = typename Config::Element;
  const Element* values =
      row_pointer<const Element>(params.v, place.batch, place.kv_head, first_key);
  if constexpr (Config::kSkipsKeys) {
    multiply_live_values<Config, Config::kRows, Config::kHeadDimV, Config::kPanelKeys>(
        weights, values, params.v.row_stride, keys, live, outputs, groups, group_weights);
  } else if constexpr (Config::kHasWindow) {
    const VisibleKeys seen =
        seen_by_some<Config>(params, place.first_row, Config::kGroups * Config::kRows);
    multiply_seen_values<Config, Config::kRows, Config::kHeadDimV, Config::kPanelKeys,
                         Config::kPanelKeys, Config::kHasPairs>(
        seen, first_key, weights, values, params.v.row_stride, keys, outputs, groups,
        group_weights);
  } else {
    multiply_values<Config, Config::kRows, Config::kHeadDimV, Config::kPanelKeys,
                    Config::kPanelKeys, 1, Config::kHasPairs>(weights, values, params.v.row_stride,
                                                              keys, outputs, groups, group_weights);
  }
}

// kIsInvariant: the sums of a block of keys -> those of all keys.
template <class Config>
LSSAR_HOST void add_block_sums(const AttentionParams& params, const RowPlace& place, int groups,
                               i64 first_key, int keys, const float* weights, i64 group_weights,
                               float* outputs, float* totals) {
  constexpr int kRows = Config::kRows;
  const typename Config::Element* values = row_pointer<const typename Config::Element>(
      params.v, place.batch, place.kv_head, first_key);
  for (int r = 0; r < groups * kRows; ++r) {
    const RowWeights of_row = {weights + r / kRows * group_weights + r % kRows * Config::kPanelKeys,
                               kRows * Config::kPanelKeys};
    float* const sums = outputs + r * Config::kHeadDimVPadded;
    leave_out_weightless<Config>(of_row, values, params.v.row_stride, keys, sums);
    float* const to = totals + r * Config::kHeadDimVPadded;
    for (int d = 0; d < Config::kHeadDimVPadded; d += Config::kLanes) {
      store<Config>(to + d, load<Config>(to + d) + load<Config>(sums + d));
      store<Config>(sums + d, Floats<Config>{});
    }
  }
}

// The least weight of a group of rows whose value counts.
//
// kIsInvariant: smaller ones are 0 already.
template <class Config>
LSSAR_HOST float least_of_group(const RowState* rows) {
  if constexpr (Config::kIsInvariant) return kLeastOfAll;
  i64 visible = 1;
  for (int r = 0; r < Config::kRows; ++r)
    visible = rows[r].visible > visible ? rows[r].visible : visible;
  return least_weight<Config>(visible);
}

// Pass 2 of a block of keys, whose activations are in the scratch memory.
//
// kSkipsKeys: values are multiplied only for keys whose weights matter.
template <class Config>
LSSAR_HOST void weigh_and_add(const AttentionParams& params, const RowPlace& place, int groups,
                              i64 first_key, int keys, RowState* rows,
                              ForwardScratch<Config>& scratch) {
  float* const scores = scores_of<Config>(
      scratch,
      Config::kHasWindow ? forward_walk<Config>(params, place).place_of(first_key) : first_key);
  constexpr i64 kSlopes = i64{Config::kRows} * Config::kBlockKeys;  // of a group
  LiveSteps<Config::kBlockKeys> live[Config::kGroups];
  for (int g = 0; g < groups; ++g) {
    float* slopes = nullptr;
    if constexpr (Config::kSumsX) slopes = slope_scratch<Config>(scratch).slopes + g * kSlopes;
    float least = 0.0f;
    if constexpr (Config::kSkipsKeys) least = least_of_group<Config>(rows + g * Config::kRows);
    weigh_block<Config>(keys, rows + g * Config::kRows, scores + g * kGroupScores<Config>, slopes,
                        least, live[g]);
    if constexpr (Config::kHasWindow && Config::kHasPairs && Config::kSkipsKeys)
      leave_out_unseen<Config>(
          seen_by_some<Config>(params, place.first_row, Config::kGroups * Config::kRows), first_key,
          live[g]);
  }
  add_values<Config>(params, place, groups, first_key, keys, scores, kGroupScores<Config>, live,
                     scratch.outputs);
  if constexpr (Config::kIsInvariant)
    add_block_sums<Config>(params, place, groups, first_key, keys, scores, kGroupScores<Config>,
                           scratch.outputs, sums_of_row<Config>(scratch, 0));
  if constexpr (Config::kSumsX) {
    SlopeScratch<Config>& more = slope_scratch<Config>(scratch);
    add_values<Config>(params, place, groups, first_key, keys, more.slopes, kSlopes, live,
                       more.outputs);
    if constexpr (Config::kIsInvariant)
      add_block_sums<Config>(params, place, groups, first_key, keys, more.slopes, kSlopes,
                             more.outputs, slope_sums_of_row<Config>(scratch, 0));
  }
}

// A block has kGroups groups of kRows queries of one head. The last one may have fewer.
template <class Config>
constexpr int kBlockRows = Config::kGroups * Config::kRows;

// The rows of a block and its walk over the keys.
template <class Config>
struct ForwardBlock {
  const AttentionParams& params;
  const RowPlace& place;
  ForwardScratch<Config>& scratch;
  RowState rows[kBlockRows<Config>];
  int groups, num_rows;
  i64 seen;  // keys of the call that at least one row sees

  LSSAR_HOST void load() {
    const i64 left = seq_q<Config>(params) - place.first_row;
    groups = left < kBlockRows<Config> ? (int)(left + Config::kRows - 1) / Config::kRows
                                       : Config::kGroups;
    num_rows = groups * Config::kRows;
    load_queries<Config>(params, place, num_rows, scratch.queries, rows);
    if constexpr (Config::kHasWindow) {
      seen = forward_walk<Config>(params, place).keys.end;
      return;
    }
    seen = 0;
    for (int r = 0; r < num_rows; ++r) seen = rows[r].seen > seen ? rows[r].seen : seen;
  }

  LSSAR_HOST i64 first_block() const { return forward_walk<Config>(params, place).first(); }
  LSSAR_HOST i64 step_from(i64 key) const { return forward_walk<Config>(params, place).step(key); }
  // Whether pass 2 computes the block's activations again.
  LSSAR_HOST bool is_again(i64 key) const {
    return Config::kIsRange ||
           forward_walk<Config>(params, place).place_of(key) >= Config::kKeptKeys;
  }

  LSSAR_HOST int keys_of_block(i64 first_key) const {
    if constexpr (Config::kHasWindow) {
      const i64 left = forward_walk<Config>(params, place).end_of(first_key) - first_key;
      return left < Config::kBlockKeys ? (int)left : Config::kBlockKeys;
    }
    const i64 rest = seen - first_key;
    return rest < Config::kBlockKeys ? (int)rest : Config::kBlockKeys;
  }

  LSSAR_HOST void sum_activations() {
    for (i64 key = Config::kHasWindow ? first_block() : 0; key < seen;
         key += Config::kHasWindow ? step_from(key) : Config::kBlockKeys)
      activate_block<Config, true>(params, place, groups, key, keys_of_block(key), rows, scratch);
  }

  // kIsRange: row sums are a call of their own, which keeps no activations.
  LSSAR_HOST void add_values() {
    for (int r = 0; r < num_rows; ++r) prepare_weights<Config>(rows[r]);
    for (int i = 0; i < num_rows * Config::kHeadDimVPadded; ++i) {
      scratch.outputs[i] = 0.0f;
      if constexpr (Config::kSumsX) slope_scratch<Config>(scratch).outputs[i] = 0.0f;
      if constexpr (Config::kIsInvariant) sums_of_row<Config>(scratch, 0)[i] = 0.0f;
      if constexpr (Config::kIsInvariant && Config::kSumsX)
        slope_sums_of_row<Config>(scratch, 0)[i] = 0.0f;
    }
    for (i64 key = Config::kHasWindow ? first_block() : 0; key < seen;
         key += Config::kHasWindow ? step_from(key) : Config::kBlockKeys) {
      const int keys = keys_of_block(key);
      if (Config::kHasWindow ? is_again(key) : Config::kIsRange || key >= Config::kKeptKeys)
        activate_block<Config, false>(params, place, groups, key, keys, rows, scratch);
      weigh_and_add<Config>(params, place, groups, key, keys, rows, scratch);
    }
  }
};

template <class Config>
LSSAR_HOST void forward(const AttentionParams& params, u32 block, void* memory) {
  ForwardScratch<Config>& scratch = *(ForwardScratch<Config>*)memory;
  const RowPlace place = query_place<Config, kBlockRows<Config>>(params, block);
  ForwardBlock<Config> rows{params, place, scratch, {}, 0, 0, 0};
  rows.load();
  rows.sum_activations();
  rows.add_values();
  store_outputs<Config>(params, place, rows.num_rows, rows.rows, scratch);
}

}  // namespace lssar_device
