// The two products of a block of rows. Each has a tile of accumulators in registers and one loop. A
// step of the loop multiplies a broadcast factor of every row by a few vectors.
#pragma once

#include "templates/cpu/factors.h"
#include "templates/cpu/rows.h"

namespace lssar_device {

// acc[r][c] = sum_d rows[r, d] panel[d, c]: rows of kDepth numbers times the first kVectors vectors
// of a panel of keys or values.
template <class Config, int kRows, int kDepth, int kVectors>
LSSAR_HOST void multiply_keys(const float* rows, const float* panel,
                              Floats<Config> (&acc)[kRows][kVectors]) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c) acc[r][c] = Floats<Config>{};
  }
  for (int step = 0; step < steps_of<Config>(kDepth); ++step) {
    Factors<Config> keys[kVectors];
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      keys[c] = load_factors<Config>(panel + step * Config::kPanelKeys + c * Config::kLanes);
    LSSAR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Factors<Config> factor = splat_factor<Config>(rows + r * kDepth + step);
      LSSAR_UNROLL
      for (int c = 0; c < kVectors; ++c)
        acc[r][c] = add_products<Config>(factor, keys[c], acc[r][c]);
    }
  }
}

// kHasPairs: products with a panel's keys -> scores: times 1 / |k|, times scale_of(row).
template <class Config, int kRows, int kVectors, class ScaleOf>
LSSAR_HOST void scale_products(const float* panel, const ScaleOf& scale_of,
                               Floats<Config> (&acc)[kRows][kVectors]) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Floats<Config> scale = splat<Config>(scale_of(r));
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      acc[r][c] = acc[r][c] * load<Config>(panel_norms<Config>(panel) + c * Config::kLanes) * scale;
  }
}

// Stores the tile; rows are kPitch numbers apart.
template <class Config, int kPitch, int kRows, int kVectors>
LSSAR_HOST void store_tile(float* to, const Floats<Config> (&acc)[kRows][kVectors]) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      store<Config>(to + r * kPitch + c * Config::kLanes, acc[r][c]);
  }
}

// Accumulators of kVectors vectors of columns, from and to rows of outputs kPitch numbers apart.
// kArePairs: two vectors have their columns in the order of pair_two_vectors.
template <class Config, int kPitch, bool kArePairs, int kRows, int kVectors>
LSSAR_HOST void load_sums(const float* outputs, Floats<Config> (&acc)[kRows][kVectors]) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      acc[r][c] = load<Config>(outputs + r * kPitch + c * Config::kLanes);
    LSSAR_UNROLL
    for (int c = 0; kArePairs && c + 1 < kVectors; c += 2)
      split_groups<Config>(acc[r][c], acc[r][c + 1], LaneNumbers<Config>{});
  }
}
template <class Config, int kPitch, bool kArePairs, int kRows, int kVectors>
LSSAR_HOST void store_sums(Floats<Config> (&acc)[kRows][kVectors], float* outputs) {
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LSSAR_UNROLL
    for (int c = 0; kArePairs && c + 1 < kVectors; c += 2)
      join_groups<Config>(acc[r][c], acc[r][c + 1], LaneNumbers<Config>{});
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      store<Config>(outputs + r * kPitch + c * Config::kLanes, acc[r][c]);
  }
}

// Stores vector c of a row's weights, which are at `row`. kHasPairs: they are rounded and take half
// the memory, over activations that were read already.
template <class Config>
LSSAR_HOST void store_weights(float* row, int c, Floats<Config> weights) {
  if constexpr (Config::kHasPairs) {
    store_rounded<Config>(row + c * Config::kLanes / 2, weights);
  } else {
    store<Config>(row + c * Config::kLanes, weights);
  }
}

// acc[r, c] += weights[r * kRowStep] values[c]. The last vector of values may be half a vector.
template <class Config, bool kIsHalf, int kRowStep, int kRows, int kVectors>
LSSAR_HOST void multiply_step(const float* weights, const typename Config::Element* values,
                              Floats<Config> (&acc)[kRows][kVectors]) {
  Floats<Config> columns[kVectors];
  LSSAR_UNROLL
  for (int c = 0; c + 1 < kVectors; ++c) columns[c] = load<Config>(values + c * Config::kLanes);
  columns[kVectors - 1] = load<Config, kIsHalf>(values + (kVectors - 1) * Config::kLanes);
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Floats<Config> weight = splat<Config>(weights[r * kRowStep]);
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c) acc[r][c] = weight * columns[c] + acc[r][c];
  }
}

// The same for pairs of weights, and the values of two keys.
template <class Config, bool kIsHalf, int kRowStep, int kRows, int kVectors>
LSSAR_HOST void multiply_pair(const float* weights, const typename Config::Element* first,
                              const typename Config::Element* second,
                              Floats<Config> (&acc)[kRows][kVectors]) {
  constexpr int kLanes = Config::kLanes, kLast = kVectors - 1;
  Words<Config> columns[kVectors];
  LSSAR_UNROLL
  for (int c = 0; c + 2 < kVectors; c += 2)
    pair_two_vectors<Config, false>(first + c * kLanes, second + c * kLanes, columns[c],
                                    columns[c + 1]);
  if constexpr (kVectors % 2 != 0)
    columns[kLast] = pair_rows<Config, kIsHalf>(first + kLast * kLanes, second + kLast * kLanes);
  else
    pair_two_vectors<Config, kIsHalf>(first + (kLast - 1) * kLanes, second + (kLast - 1) * kLanes,
                                      columns[kLast - 1], columns[kLast]);
  LSSAR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Words<Config> pair = splat_pair<Config>(weights + r * kRowStep);
    LSSAR_UNROLL
    for (int c = 0; c < kVectors; ++c)
      acc[r][c] = add_pair_products<Config>(pair, columns[c], acc[r][c]);
  }
}

// outputs[r, c] += sum_j weights[r, j] values[j, c] for kVectors vectors of columns, the last of
// which may be half a vector. Rows of outputs are kPitch numbers apart. Weights come in groups of
// kGroup steps j; within one, weights[r, j] is at r * kRowStep + j * kStep. kArePairs: pair j / 2
// is at r * kRowStep + j / 2 * kStep. The last pair may have one key; its second weight is then 0.
template <class Config, int kRows, int kVectors, bool kIsHalf, int kPitch, int kGroup, int kRowStep,
          int kStep, bool kArePairs>
LSSAR_HOST void multiply_columns(const float* weights, const typename Config::Element* values,
                                 i64 row_stride, int steps, float* outputs) {
  Floats<Config> acc[kRows][kVectors];
  load_sums<Config, kPitch, kArePairs>(outputs, acc);
  for (int first = 0; first < steps; first += kGroup) {
    const int left = steps - first;
    const int count = left < kGroup ? left : kGroup;
    for (int j = 0; j < count; j += kArePairs ? 2 : 1) {
      if constexpr (kArePairs) {
        multiply_pair<Config, kIsHalf, kRowStep>(weights + j / 2 * kStep, values,
                                                 j + 1 < count ? values + row_stride : values, acc);
        values += 2 * row_stride;
      } else {
        multiply_step<Config, kIsHalf, kRowStep>(weights + j * kStep, values, acc);
        values += row_stride;
      }
    }
    weights += kRows * kGroup;
  }
  store_sums<Config, kPitch, kArePairs>(acc, outputs);
}

// Steps of a product that matter: steps[i] is a row of values, or the first of a pair's, and
// places[i] is where its weights are, of the first row of outputs. A whole vector may be stored
// behind any of them.
template <int kMost>
struct LiveSteps {
  static constexpr int kMostLanes = 16;  // of any target
  int count;
  int steps[kMost + kMostLanes];
  int places[kMost + kMostLanes];
};

// Fetches the columns of a later step's values. The CPU does not foresee which rows are skipped.
// With 16384 keys, d 128 and fp32 a forward took 0.73 to 0.83 of the time so; with 4096 as long.
template <class Config, int kVectors, int kMost>
LSSAR_HOST void fetch_ahead(const typename Config::Element* values, i64 row_stride,
                            const LiveSteps<kMost>& live, int i) {
  constexpr int kAhead = 16, kLine = 64 / sizeof(typename Config::Element);
  if (i + kAhead >= live.count) return;
  const int step = live.steps[i + kAhead];
  const typename Config::Element* const row = values + (step < 0 ? ~step : step) * row_stride;
  LSSAR_UNROLL
  for (int at = 0; at < kVectors * Config::kLanes; at += kLine) {
    __builtin_prefetch(row + at);
    if constexpr (Config::kHasPairs) __builtin_prefetch(row + row_stride + at);
  }
}

// As multiply_columns, for some steps only, of `keys` keys.
template <class Config, int kRows, int kVectors, bool kIsHalf, int kPitch, int kRowStep, int kMost>
LSSAR_HOST void multiply_live_columns(const float* weights, const typename Config::Element* values,
                                      i64 row_stride, int keys, const LiveSteps<kMost>& live,
                                      float* outputs) {
  Floats<Config> acc[kRows][kVectors];
  load_sums<Config, kPitch, Config::kHasPairs>(outputs, acc);
  for (int i = 0; i < live.count; ++i) {
    fetch_ahead<Config, kVectors>(values, row_stride, live, i);
    if constexpr (Config::kHasWindow && Config::kHasPairs) {
      const int step = live.steps[i];  // ~row: that row stands for both of a pair
      const bool is_alone = step < 0 || step + 1 == keys;
      const typename Config::Element* const row = values + (step < 0 ? ~step : step) * row_stride;
      multiply_pair<Config, kIsHalf, kRowStep>(weights + live.places[i], row,
                                               is_alone ? row : row + row_stride, acc);
      continue;
    }
    const typename Config::Element* const of_step = values + live.steps[i] * row_stride;
    if constexpr (Config::kHasPairs) {
      multiply_pair<Config, kIsHalf, kRowStep>(
          weights + live.places[i], of_step,
          live.steps[i] + 1 < keys ? of_step + row_stride : of_step, acc);
    } else {
      multiply_step<Config, kIsHalf, kRowStep>(weights + live.places[i], of_step, acc);
    }
  }
  store_sums<Config, kPitch, Config::kHasPairs>(acc, outputs);
}

// The same for all kDim columns, a chunk at a time, so that accumulators fit in registers. Rows of
// outputs are whole vectors. Groups of rows are multiplied by a chunk one after another, while it
// is in the first-level cache; their weights are group_weights numbers apart.
template <class Config, int kRows, int kDim, int kGroup, int kRowStep, int kStep,
          bool kArePairs = false>
LSSAR_HOST void multiply_values(const float* weights, const typename Config::Element* values,
                                i64 row_stride, int steps, float* outputs, int groups = 1,
                                i64 group_weights = 0) {
  constexpr int kCols = Config::kPanelKeys;
  constexpr int kWhole = kDim / kCols * kCols;
  constexpr int kRest = (kDim - kWhole + Config::kLanes - 1) / Config::kLanes;
  constexpr bool kIsHalf = kDim % Config::kLanes != 0;
  constexpr int kPitch = (kDim + Config::kLanes - 1) / Config::kLanes * Config::kLanes;
  LSSAR_ROLLED
  for (int col = 0; col < kWhole; col += kCols)
    for (int g = 0; g < groups; ++g)
      multiply_columns<Config, kRows, Config::kPanelVectors, false, kPitch, kGroup, kRowStep, kStep,
                       kArePairs>(weights + g * group_weights, values + col, row_stride, steps,
                                  outputs + g * kRows * kPitch + col);
  if constexpr (kRest != 0)
    for (int g = 0; g < groups; ++g)
      multiply_columns<Config, kRows, kRest, kIsHalf, kPitch, kGroup, kRowStep, kStep, kArePairs>(
          weights + g * group_weights, values + kWhole, row_stride, steps,
          outputs + g * kRows * kPitch + kWhole);
}

// Within windows: as multiply_values, for those of the `keys` keys from first_key on that are among
// `seen`. The others may be NaN, and 0 times NaN is NaN.
//
// kArePairs: the first key of the second range may share a pair with one that is not seen, and so
// may the last of each range. Its value then stands for both, of which one has weight 0.
template <class Config, int kRows, int kDim, int kGroup, int kRowStep, bool kArePairs = false>
LSSAR_HOST void multiply_seen_values(const VisibleKeys& seen, i64 first_key, const float* weights,
                                     const typename Config::Element* values, i64 row_stride,
                                     int keys, float* outputs, int groups = 1,
                                     i64 group_weights = 0) {
  constexpr int kTogether = kArePairs ? 2 : 1;
  int head = (int)bounded(seen.always - first_key, 0, keys);
  int begin = (int)bounded(seen.begin - first_key, head, keys);
  if (begin == head) begin = head = 0;  // one range: a pair may have keys of both
  const int end = (int)bounded(seen.end - first_key, begin, keys);
  // A product begins at a pair, or has one key.
  const int next_pair = begin + begin % kTogether;
  const int whole = next_pair < end ? next_pair : end;
  // It begins at a group of weights, or ends where the group ends.
  const int next_group = (whole + kGroup - 1) / kGroup * kGroup;
  const int middle = next_group < end ? next_group : end;
  const int firsts[4] = {0, begin, whole, middle}, ends[4] = {head, whole, middle, end};
  LSSAR_ROLLED
  for (int run = 0; run < 4; ++run) {
    const int first = firsts[run];
    if (first >= ends[run]) continue;
    multiply_values<Config, kRows, kDim, kGroup, kRowStep, 1, kArePairs>(
        weights + first / kGroup * (kRows * kGroup) + first % kGroup / kTogether,
        values + first * row_stride, row_stride, ends[run] - first, outputs, groups, group_weights);
  }
}

// As multiply_values, for some steps only: live[g] are those of group g.
template <class Config, int kRows, int kDim, int kRowStep, int kMost>
LSSAR_HOST void multiply_live_values(const float* weights, const typename Config::Element* values,
                                     i64 row_stride, int keys, const LiveSteps<kMost>* live,
                                     float* outputs, int groups, i64 group_weights) {
  constexpr int kCols = Config::kPanelKeys;
  constexpr int kWhole = kDim / kCols * kCols;
  constexpr int kRest = (kDim - kWhole + Config::kLanes - 1) / Config::kLanes;
  constexpr int kPitch = (kDim + Config::kLanes - 1) / Config::kLanes * Config::kLanes;
  LSSAR_ROLLED
  for (int col = 0; col < kWhole; col += kCols)
    for (int g = 0; g < groups; ++g)
      multiply_live_columns<Config, kRows, Config::kPanelVectors, false, kPitch, kRowStep>(
          weights + g * group_weights, values + col, row_stride, keys, live[g],
          outputs + g * kRows * kPitch + col);
  if constexpr (kRest != 0)
    for (int g = 0; g < groups; ++g)
      multiply_live_columns<Config, kRows, kRest, kDim % Config::kLanes != 0, kPitch, kRowStep>(
          weights + g * group_weights, values + kWhole, row_stride, keys, live[g],
          outputs + g * kRows * kPitch + kWhole);
}

}  // namespace lssar_device
