// Pass 1 of the forward: loads a block's queries, and computes activations of blocks of keys and
// their sums. Pass 2 computes activations again that were not kept.
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

// How a block of rows walks over its keys within windows.
//
// kIsInvariant: blocks of keys begin at multiples of their length, whatever the rows.
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

// Computes activations of a panel's first kVectors vectors. All rows see the first `least` keys.
// Keys that a row does not see are hidden, also in the rest of the panel.
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

}  // namespace lssar_device
