// The forward kernel. A block has a few query rows of one head. Pass 1 sums activations. Pass 2
// turns them into weights and multiplies values by these. The activations of the first keys stay in
// the core's cache between the passes; the others are computed again. For training it also saves
// rows, and X if the backward wants it, for which it multiplies values by U^(p - 1) too.
#pragma once

#include "templates/cpu/forward_output.h"
#include "templates/cpu/key_walk.h"
#include "templates/cpu/lockstep.h"

namespace lssar_device {

// Loads queries times c_i log2(e) / |q_i| as [num_rows][head_dim], or as pairs. Rows past the end
// see no keys.
template <class Config>
LSSAR_HOST void load_queries(const AttentionParams& params, const RowPlace& place, int num_rows,
                             float* queries, RowState* rows) {
  for (int r = 0; r < num_rows; ++r) {
    const i64 row = place.first_row + r;
    const i64 visible = row < seq_q<Config>(params) ? visible_keys<Config>(params, row) : 0;
    rows[r] = RowState{};
    rows[r].visible = visible;
    rows[r].seen = seen_keys<Config>(params, visible);
    rows[r].largest_score = -infinity();
    rows[r].score_scale = load_query<Config>(
        params, place, row, visible, queries + r * Config::kHeadDim,
        [&](float squares) LSSAR_WIDE { return query_scale<Config>(squares, visible); });
  }
}

// What kRows rows do not see of a panel becomes `hidden`.
template <class Config>
LSSAR_HOST void hide_keys(const RowState* rows, i64 first_key, float hidden, float* scores) {
  for (int r = 0; r < Config::kRows; ++r) {
    const int left = (int)bounded(rows[r].seen - first_key, 0, Config::kPanelKeys);
    for (int key = left / Config::kLanes * Config::kLanes; key < Config::kPanelKeys;
         key += Config::kLanes) {
      float* const at = scores + r * Config::kPanelKeys + key;
      const Ints<Config> is_seen = lane_numbers<Config>() + key < left;
      store<Config>(at, is_seen ? load<Config>(at) : splat<Config>(hidden));
    }
  }
}

// The same within windows. Rows past the end need not be hidden.
template <class Config>
LSSAR_HOST void hide_outside(const AttentionParams& params, i64 first_row, i64 first_key,
                             float hidden, float* scores) {
  for (int r = 0; r < Config::kRows; ++r)
    for_each_hidden<Config>(seen_window<Config>(params, first_row + r), first_key,
                            [&](int key) { scores[r * Config::kPanelKeys + key] = hidden; });
}

// A vector of sums for each row of a group.
template <class Config>
struct PanelSums {
  alignas(64) float sum[Config::kRows * Config::kLanes];
  alignas(64) float most[Config::kRows * Config::kLanes];  // the largest scores
};

template <class Config>
LSSAR_HOST void clear_sums(PanelSums<Config>& sums) {
  for (int i = 0; i < Config::kRows * Config::kLanes; ++i) {
    sums.sum[i] = 0.0f;
    sums.most[i] = -infinity();
  }
}

// `at`: the first number of a row.
template <class Config>
LSSAR_HOST void add_sums(Floats<Config> sum, Floats<Config> most, int at, PanelSums<Config>& sums) {
  store<Config>(sums.sum + at, load<Config>(sums.sum + at) + sum);
  store<Config>(sums.most + at, larger<Config>(most, load<Config>(sums.most + at)));
}

// Turns scores of a panel's first kVectors vectors into activations, in place. kSums: adds them to
// `sums`. A row's vectors are added up first, so that few sums go through memory.
template <class Config, bool kSums, int kVectors>
LSSAR_HOST void activate_scores(float* scores, PanelSums<Config>& sums) {
  constexpr int kCount = vectors_at_once<Config>(Config::kRows, kVectors);
  constexpr int kOfRow = kCount < kVectors ? kCount : kVectors;
  LSSAR_ROLLED
  for (int first = 0; first < Config::kRows * kVectors; first += kCount) {
    const auto place = [&](int i) {
      return (first / kVectors + i / kVectors) * Config::kPanelKeys +
             (first % kVectors + i % kVectors) * Config::kLanes;
    };
    Floats<Config> x[kCount], u[kCount], activation[kCount];
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = load<Config>(scores + place(i));
    exp2_of_minus_abs<Config>(x, u);
    softplus_from<Config>(x, u, activation);
    LSSAR_UNROLL
    for (int i = 0; i < kCount; ++i) store<Config>(scores + place(i), activation[i]);
    if constexpr (!kSums) continue;
    LSSAR_UNROLL
    for (int i = 0; i < kCount; i += kOfRow) {
      Floats<Config> sum = seen_activation<Config>(x[i], activation[i]), most = x[i];
      LSSAR_UNROLL
      for (int c = i + 1; c < i + kOfRow; ++c) {
        sum += seen_activation<Config>(x[c], activation[c]);
        most = larger<Config>(x[c], most);
      }
      add_sums<Config>(sum, most, (first + i) / kVectors * Config::kLanes, sums);
    }
  }
}

// Adds the sums of row r of a group to its state.
template <class Config>
LSSAR_HOST void add_panel_sums(const PanelSums<Config>& sums, int r, RowState& row) {
  row.sum += lane_sum<Config>(load<Config>(sums.sum + r * Config::kLanes));
  const float score = lane_maximum<Config>(load<Config>(sums.most + r * Config::kLanes));
  row.largest_score = score > row.largest_score ? score : row.largest_score;
}

// How a block of rows walks over its keys within windows. kIsInvariant: blocks of keys begin at
// multiples of their length, whatever the rows.
template <class Config>
constexpr int kWalkAlign = Config::kIsInvariant ? Config::kBlockKeys : Config::kPanelKeys;
template <class Config>
using ForwardWalk = KeyWalk<Config, Config::kBlockKeys, kWalkAlign<Config>>;
template <class Config>
LSSAR_HOST ForwardWalk<Config> forward_walk(const AttentionParams& params, const RowPlace& place) {
  return {params, place, Config::kGroups * Config::kRows};
}

// Whether one of kRows rows sees a key of a panel.
template <class Config>
LSSAR_HOST bool is_tile_seen(const AttentionParams& params, i64 first_row, i64 first_key) {
  return seen_by_some<Config>(params, first_row, Config::kRows)
      .has_some(first_key, Config::kPanelKeys);
}

// Computes scores of a group's rows and the first kVectors vectors of a panel.
template <class Config, int kVectors>
LSSAR_HOST void score_panel(const float* queries, const RowState* rows, const float* panel,
                            float* scores) {
  Floats<Config> acc[Config::kRows][kVectors];
  multiply_keys<Config, Config::kRows, Config::kHeadDim>(queries, panel, acc);
  if constexpr (Config::kHasPairs)
    scale_products<Config>(panel, [&](int r) LSSAR_WIDE { return rows[r].score_scale; }, acc);
  store_tile<Config, Config::kPanelKeys>(scores, acc);
}

// Computes activations of a panel's first kVectors vectors. `least`: keys that all rows see. What a
// row does not see is hidden, in the rest of the panel too.
template <class Config, bool kSums, int kVectors>
LSSAR_HOST void activate_panel(const float* queries, const RowState* rows, const float* panel,
                               i64 first_key, i64 least, float* scores, PanelSums<Config>& sums) {
  const bool is_masked = least < Config::kPanelKeys;
  score_panel<Config, kVectors>(queries, rows, panel, scores);
  // A score of -infinity adds less than a float of the sum resolves.
  if (is_masked) hide_keys<Config>(rows, first_key, -infinity(), scores);
  activate_scores<Config, kSums, kVectors>(scores, sums);
  if (is_masked) hide_keys<Config>(rows, first_key, kHidden, scores);
}

// The same for the vectors that have one of a panel's first `seen` keys, a vector at a time. No row
// sees the other keys, which are hidden. The bits are those of activate_panel: a row's vectors are
// added up before they go to `sums`.
template <class Config>
LSSAR_HOST void activate_start(const float* queries, const RowState* rows, const float* panel,
                               i64 first_key, i64 seen, float* scores, PanelSums<Config>& sums) {
  PanelSums<Config> of_panel;
  clear_sums<Config>(of_panel);
  LSSAR_ROLLED
  for (int key = 0; key < seen; key += Config::kLanes)
    score_panel<Config, 1>(queries, rows, panel + key, scores + key);
  hide_keys<Config>(rows, first_key, -infinity(), scores);
  LSSAR_ROLLED
  for (int key = 0; key < seen; key += Config::kLanes)
    activate_scores<Config, true, 1>(scores + key, of_panel);
  hide_keys<Config>(rows, first_key, kHidden, scores);
  for (int i = 0; i < Config::kRows * Config::kLanes; i += Config::kLanes)
    add_sums<Config>(load<Config>(of_panel.sum + i), load<Config>(of_panel.most + i), i, sums);
}

// Computes activations of `keys` keys from first_key on, at most kBlockKeys of them. kSums: adds
// them to the rows' sums. A panel stays in the first-level cache for all groups of rows.
template <class Config, bool kSums>
LSSAR_HOST void activate_block(const AttentionParams& params, const RowPlace& place, int groups,
                               i64 first_key, int keys, RowState* rows,
                               ForwardScratch<Config>& scratch) {
  constexpr int kRows = Config::kRows, kFloats = kRows * Config::kPanelKeys;
  constexpr int kVectors = Config::kPanelVectors;
  const i64 slice = place.batch * params.kv_heads + place.kv_head;
  const float* panel = key_panel<Config>(params, slice, first_key / Config::kPanelKeys);
  float* scores = scores_of<Config>(
      scratch,
      Config::kHasWindow ? forward_walk<Config>(params, place).place_of(first_key) : first_key);
  PanelSums<Config> sums[Config::kGroups];
  i64 least[Config::kGroups], most[Config::kGroups];  // keys that all rows see, and that some see
  for (int g = 0; g < groups; ++g) {
    if constexpr (!Config::kHasWindow) {
      least[g] = most[g] = rows[g * kRows].seen;
      for (int r = g * kRows; r < (g + 1) * kRows; ++r) {
        least[g] = rows[r].seen < least[g] ? rows[r].seen : least[g];
        most[g] = rows[r].seen > most[g] ? rows[r].seen : most[g];
      }
    }
    if constexpr (kSums) clear_sums<Config>(sums[g]);
  }
  for (int key = 0; key < keys; key += Config::kPanelKeys) {
    for (int g = 0; g < groups; ++g) {
      const i64 panel_key = first_key + key;
      float* const at = scores + g * kGroupScores<Config>;
      const float* const queries = scratch.queries + g * kRows * Config::kHeadDim;
      const RowState* const of_group = rows + g * kRows;
      if constexpr (Config::kHasWindow) {
        const i64 row = place.first_row + g * kRows;
        if constexpr (Config::kIsInvariant) {
          // No row of the call may see the panel, and then it is not packed.
          if (!is_tile_seen<Config>(params, row, panel_key)) {
            for (int i = 0; i < kFloats; ++i) at[i] = kHidden;
            continue;
          }
        }
        score_panel<Config, kVectors>(queries, of_group, panel, at);
        const bool is_whole =
            common_keys<Config>(params, row, kRows).has_all(panel_key, Config::kPanelKeys);
        if (!is_whole) hide_outside<Config>(params, row, panel_key, -infinity(), at);
        activate_scores<Config, kSums, kVectors>(at, sums[g]);
        if (!is_whole) hide_outside<Config>(params, row, panel_key, kHidden, at);
        continue;
      }
      if constexpr (kSums && kVectors > 1) {
        const i64 seen = most[g] - panel_key;
        if (seen <= Config::kPanelKeys - Config::kLanes) {
          activate_start<Config>(queries, of_group, panel, panel_key, seen, at, sums[g]);
          continue;
        }
      }
      activate_panel<Config, kSums, kVectors>(queries, of_group, panel, panel_key,
                                              least[g] - panel_key, at, sums[g]);
    }
    panel += Config::kPanelRows * Config::kPanelKeys;
    scores += kFloats;
  }
  for (int r = 0; kSums && r < groups * kRows; ++r)
    add_panel_sums<Config>(sums[r / kRows], r % kRows, rows[r]);
}

// Whether keys are listed by u^(p - 1), which the sum of X needs. In fp32 the plain forward does so
// too, and both have the same o.
template <class Config>
constexpr bool kListsSlopes =
    Config::kSumsX || (Config::kSkipsKeys && sizeof(typename Config::Element) == sizeof(float));

// u^p of a row's activations. kListsSlopes: also u^(p - 1), in `slope`.
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

// Within windows: has the value of a key stand for its pair where no row of the block sees the
// other key, whose value may be NaN. Such a step is ~(the key's).
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
// sums. kSumsX: also writes u^(p - 1) to `slopes`. kSkipsKeys: lists the keys for which one row's
// weight, or u^(p - 1), is at least `least`.
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

// The least weight of a group of rows whose value counts. kIsInvariant: smaller ones are 0 already.
template <class Config>
LSSAR_HOST float least_of_group(const RowState* rows) {
  if constexpr (Config::kIsInvariant) return kLeastOfAll;
  i64 visible = 1;
  for (int r = 0; r < Config::kRows; ++r)
    visible = rows[r].visible > visible ? rows[r].visible : visible;
  return least_weight<Config>(visible);
}

// Pass 2 of a block of keys, whose activations are in the scratch memory. kSkipsKeys: values are
// multiplied only for keys whose weights matter.
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
