// Few queries: multiplies a chunk's values by weights. The rows that share the values read them
// once, and only the values that matter to one of these rows.
#pragma once

#include "templates/cpu/few_queries.h"

namespace lssar_device {

// The sum of a number of every chunk. The order depends on the number of lanes only.
//
// kIsInvariant: it is that of the keys, as in cpu/forward.h.
template <class Config>
LSSAR_HOST double sum_of_chunks(const float* of_chunk, i64 chunks) {
  if constexpr (Config::kIsInvariant) {
    double in_order = 0;
    for (i64 chunk = 0; chunk < chunks; ++chunk) in_order += of_chunk[chunk];
    return in_order;
  }
  using Doubles = typename VectorOf<Config::kLanes>::Doubles;
  Doubles sums = {};
  for (i64 chunk = 0; chunk < chunks; chunk += Config::kLanes) {
    Floats<Config> x = load<Config>(of_chunk + chunk);
    if (chunks - chunk < Config::kLanes)
      x = lane_numbers<Config>() < (int)(chunks - chunk) ? x : Floats<Config>{};
    sums += __builtin_convertvector(x, Doubles);
  }
  double sum = sums[0];
  LSSAR_UNROLL
  for (int i = 1; i < Config::kLanes; ++i) sum += sums[i];
  return sum;
}

// The largest number, where a NaN does not count.
template <class Config>
LSSAR_HOST float most_of_chunks(const float* of_chunk, i64 chunks) {
  Floats<Config> most = splat<Config>(-infinity());
  for (i64 chunk = 0; chunk < chunks; chunk += Config::kLanes) {
    Floats<Config> x = load<Config>(of_chunk + chunk);
    if (chunks - chunk < Config::kLanes)
      x = lane_numbers<Config>() < (int)(chunks - chunk) ? x : splat<Config>(-infinity());
    most = larger<Config>(x, most);
  }
  return lane_maximum<Config>(most);
}

// A row's sums over all chunks, and how its activations become weights.
template <class Config>
LSSAR_CALLED RowState few_row(const AttentionParams& params, const FewSlice<Config>& slice,
                              i64 row) {
  RowState state = {};
  state.visible = visible_keys<Config>(params, row % slice.queries);
  if (state.visible != 0) {
    state.sum = sum_of_chunks<Config>(slice.of_chunks(0, row), slice.chunks);
    state.largest_score = most_of_chunks<Config>(slice.of_chunks(1, row), slice.chunks);
  }
  prepare_weights<Config>(state);
  return state;
}

// Keys of a chunk whose values are read. A whole vector may be stored behind any of them.
template <class Config>
struct FewLiveKeys {
  int count;
  int keys[Config::kFewKeys + Config::kLanes];
};

// Turns a row's activations of a chunk into weights, in place, and returns their sum. `most` gets
// each key's largest weight of all rows so far.
//
// kIsInvariant: weights below `least` become 0.
template <class Config>
LSSAR_HOST float weigh_chunk(float* activations, int keys, const WeightScale& scale,
                             [[maybe_unused]] float least, float* most) {
  constexpr int kSums = Config::kIsInvariant ? 1 : kFewVectors;
  Floats<Config> sums[kSums] = {};
  for (int key = 0; key < keys; key += kFewVectors * Config::kLanes) {
    LSSAR_UNROLL
    for (int c = 0; c < kFewVectors; ++c) {
      float* const at = activations + key + c * Config::kLanes;
      Floats<Config> weight = Config::power(base_of<Config>(load<Config>(at), scale));
      sums[c % kSums] += weight;
      if constexpr (Config::kIsInvariant) weight = cut_weights<Config>(weight, least);
      store<Config>(at, weight);
      float* const of_most = most + key + c * Config::kLanes;
      store<Config>(of_most, larger<Config>(weight, load<Config>(of_most)));
    }
  }
  Floats<Config> sum = sums[0];
  LSSAR_UNROLL
  for (int c = 1; c < kSums; ++c) sum += sums[c];
  return lane_sum<Config>(sum);
}

// Lists the keys whose largest weight is at least `least`. If these are three of four keys or more,
// memory delivers all of them as fast, and all are listed.
//
// Within windows they are not, because values outside may be no numbers.
template <class Config>
LSSAR_HOST void list_few_keys(const float* most, int keys, float least, FewLiveKeys<Config>& live) {
  live.count = 0;
  for (int key = 0; key < keys; key += Config::kLanes) {
    const Ints<Config> step = lane_numbers<Config>() + key;
    const Ints<Config> is_live = (load<Config>(most + key) >= least) & (step < keys);
    live.count += store_chosen<Config>(is_live, step, live.keys + live.count);
  }
  if (Config::kHasWindow || 4 * live.count < 3 * keys) return;
  live.count = keys;
  for (int key = 0; key < keys; ++key) live.keys[key] = key;
}

// The live keys [first, end). Their values stay in the first-level cache for all rows. Meanwhile
// the values of equally many later keys are prefetched.
struct FewLiveRange {
  int first, end;
};
constexpr int kFewLiveKeys = 16;

// outputs[r] += weights[r] * values for kRows rows and kVectors vectors of columns, the last of
// which may be half a vector.
template <class Config, int kRows, int kVectors, bool kIsHalf>
LSSAR_HOST void add_few_tile(const FewLiveKeys<Config>& live, FewLiveRange range, bool is_first_row,
                             const float* weights, i64 weight_pitch,
                             const typename Config::Element* values, i64 row_stride,
                             float* outputs) {
  Floats<Config> acc[kRows][kVectors];
  LSSAR_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i)
    acc[i / kVectors][i % kVectors] =
        load<Config>(outputs + i / kVectors * Config::kFewPitchV + i % kVectors * Config::kLanes);
  for (int i = range.first; i < range.end; ++i) {
    const int later = i + kFewLiveKeys;
    if (is_first_row && later < live.count) {
      LSSAR_UNROLL
      for (int d = 0; d < kVectors * Config::kLanes; d += kLineNumbers<typename Config::Element>)
        __builtin_prefetch(values + live.keys[later] * row_stride + d);
    }
    const int key = live.keys[i];
    const typename Config::Element* const from = values + key * row_stride;
    Floats<Config> x[kVectors];
    LSSAR_UNROLL
    for (int c = 0; c + 1 < kVectors; ++c) x[c] = load<Config>(from + c * Config::kLanes);
    x[kVectors - 1] = load<Config, kIsHalf>(from + (kVectors - 1) * Config::kLanes);
    LSSAR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Floats<Config> weight = splat<Config>(weights[r * weight_pitch + key]);
      LSSAR_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[r][c] = weight * x[c] + acc[r][c];
    }
  }
  LSSAR_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i)
    store<Config>(outputs + i / kVectors * Config::kFewPitchV + i % kVectors * Config::kLanes,
                  acc[i / kVectors][i % kVectors]);
}

// The same for all columns of kRows rows from `row` on.
template <class Config, int kRows>
LSSAR_HOST void add_few_rows(const AttentionParams& params, const FewChunk<Config>& of, i64 row,
                             const FewLiveKeys<Config>& live, FewLiveRange range) {
  using Element = typename Config::Element;
  constexpr int kMost = (Config::kLanes >= 16 ? 16 : 8) / kRows;
  constexpr int kVectors = kMost < 8 ? kMost : 8;  // 8 of 16, or 16 of 32 registers
  constexpr int kCols = kVectors * Config::kLanes, kWhole = Config::kHeadDimV / kCols * kCols;
  constexpr int kRest = (Config::kHeadDimV - kWhole + Config::kLanes - 1) / Config::kLanes;
  const FewSlice<Config>& slice = of.slice;
  const Element* const values =
      row_pointer<const Element>(params.v, slice.batch, slice.kv_head, of.first_key);
  const float* const weights = slice.activations(row) + of.first_key;
  float* const outputs = slice.outputs(of.chunk, row);
  LSSAR_ROLLED
  for (int col = 0; col < kWhole; col += kCols)
    add_few_tile<Config, kRows, kVectors, false>(live, range, row == 0, weights, slice.key_pitch,
                                                 values + col, params.v.row_stride, outputs + col);
  if constexpr (kRest != 0)
    add_few_tile<Config, kRows, kRest, Config::kHeadDimV % Config::kLanes != 0>(
        live, range, row == 0, weights, slice.key_pitch, values + kWhole, params.v.row_stride,
        outputs + kWhole);
}

// No row sees the chunk: it adds nothing.
template <class Config>
LSSAR_HOST void leave_out_chunk(const FewChunk<Config>& of) {
  for (int r = 0; r < of.slice.rows; ++r) {
    of.slice.of_chunks(2, r)[of.chunk] = 0.0f;
    for (int d = 0; d < Config::kFewPitchV; ++d) of.slice.outputs(of.chunk, r)[d] = 0.0f;
  }
}

template <class Config>
LSSAR_HOST void few_values(const AttentionParams& params, u32 block, void* /*scratch*/) {
  const FewChunk<Config> of(params, block);
  const FewSlice<Config>& slice = of.slice;
  if constexpr (Config::kHasWindow) {
    if (!is_chunk_seen<Config>(params, of)) return leave_out_chunk<Config>(of);
  }
  alignas(64) float most[Config::kFewKeys];
  for (int key = 0; key < Config::kFewKeys; ++key) most[key] = 0.0f;
  float least = 1.0f;
  for (int r = 0; r < slice.rows; ++r) {
    const RowState row = few_row<Config>(params, slice, r);
    const float of_row = least_weight<Config>(row.visible);
    slice.of_chunks(2, r)[of.chunk] = weigh_chunk<Config>(slice.activations(r) + of.first_key,
                                                          of.keys, row.scale, of_row, most);
    least = of_row < least ? of_row : least;
    for (int d = 0; d < Config::kFewPitchV; ++d) slice.outputs(of.chunk, r)[d] = 0.0f;
  }
  FewLiveKeys<Config> live;
  list_few_keys<Config>(most, of.keys, least, live);
  for (int first = 0; first < live.count; first += kFewLiveKeys) {
    const int left = live.count - first;
    const FewLiveRange range = {first, first + (left < kFewLiveKeys ? left : kFewLiveKeys)};
    i64 row = 0;
    for (; row + 4 <= slice.rows; row += 4) add_few_rows<Config, 4>(params, of, row, live, range);
    for (; row < slice.rows; ++row) add_few_rows<Config, 1>(params, of, row, live, range);
  }
  for (i64 row = 0; Config::kIsInvariant && row < slice.rows; ++row)
    leave_out_weightless<Config>(
        {slice.activations(row) + of.first_key, Config::kPanelKeys},
        row_pointer<const typename Config::Element>(params.v, slice.batch, slice.kv_head,
                                                    of.first_key),
        params.v.row_stride, of.keys, slice.outputs(of.chunk, row));
}

}  // namespace lssar_device
