// The gradients of keys and values:
//
//   dv_j = sum_i M_ij g_i
//   dk_j = a_j - k^_j (k^_j a_j),   a_j = sum_i dS''_ij q_i
//
// A block has kGradKeys keys of one kv head and walks over the queries of every head that reads
// these keys. So sums over a group of heads need no second kernel and have one order. With kSumsDq
// it also sums dq.
#pragma once

#include "templates/cpu/gradient_tile.h"
#include "templates/cpu/ordered_dq.h"

namespace lssar_device {

template <class Config>
struct DkdvScratch {
  GradientTile<Config> tile;
  alignas(64) float key_sums[Config::kGradKeys * Config::kHeadDimPadded];
  alignas(64) float value_sums[Config::kGradKeys * Config::kHeadDimVPadded];
};

// kSumsDq: follows DkdvScratch. Sums of dq over a tile.
template <class Config>
struct QuerySums {
  alignas(64) float sums[Config::kGradRows * Config::kHeadDimPadded];
};

// The first query that sees a key.
template <class Config>
LSSAR_HOST i64 first_query(const AttentionParams& params, i64 key) {
  if constexpr (Config::kHasWindow) return seeing_rows<Config>(params, key, key + 1).begin;
  if constexpr (Config::kIsCausal) {
    const i64 row = key - seq_k<Config>(params) + seq_q<Config>(params);
    return row < 0 ? 0 : row;
  } else {
    return 0;
  }
}

// Whether a query may see a key.
template <class Config>
LSSAR_HOST bool is_key_seen(const AttentionParams& params, i64 key) {
  const i64 queries = seq_q<Config>(params);
  return queries > 0 && seen_by_some<Config>(params, 0, queries).has(key);
}

// Clears the gradients of a key that no query sees, without reading it: it may be NaN.
template <class Config>
LSSAR_HOST void clear_gradients(const AttentionParams& params, const RowPlace& place, i64 key) {
  using Element = typename Config::Element;
  Element* const of_key = row_pointer<Element>(params.grad_k, place.batch, place.kv_head, key);
  for (int d = 0; d < Config::kHeadDim; ++d) of_key[d] = Element{};
  Element* const of_value = row_pointer<Element>(params.grad_v, place.batch, place.kv_head, key);
  for (int d = 0; d < Config::kHeadDimV; ++d) of_value[d] = Element{};
}

// kHasPairs: rounds the numbers of rows 2 i and 2 i + 1, and writes a pair for each key to row i of
// `to`, which may be `from`. The last row may be alone; its pairs have a zero.
template <class Config>
LSSAR_HOST void pair_tile_rows(const float* from, int num_rows, float* to) {
  constexpr int kKeys = Config::kGradKeys;
  for (int row = 0; row < num_rows; row += 2) {
    for (int key = 0; key < kKeys; key += Config::kLanes) {
      const float* const first = from + row * kKeys + key;
      const Floats<Config> second =
          row + 1 < num_rows ? load<Config>(first + kKeys) : Floats<Config>{};
      const Words<Config> pairs = pair_lanes<Config>(rounded_numbers<Config>(load<Config>(first)),
                                                     rounded_numbers<Config>(second));
      store<Config>(to + row / 2 * kKeys + key, (Floats<Config>)pairs);
    }
  }
}

// What rows of grad_o and q are multiplied by.
template <class Config>
struct RowFactors {
  float* weights;
  float* gradients;

  // kHasPairs: the pairs take the place of the weights.
  LSSAR_HOST RowFactors(GradientTile<Config>& tile, int num_rows)
      : weights(tile.weights), gradients(tile.gradients) {
    if constexpr (Config::kHasPairs) {
      gradients = tile.weights + Config::kGradRows / 2 * Config::kGradKeys;
      pair_tile_rows<Config>(tile.weights, num_rows, weights);
      pair_tile_rows<Config>(tile.gradients, num_rows, gradients);
    }
  }
};

// sums[j, c] += sum_i scores[i, j] numbers[i, c] for kRows keys j, kDim columns of grad_o or q, and
// rows i from `first` on. `scores` is at row 0, or pair 0, of the tile, and `numbers` at row first.
template <class Config, int kDim>
LSSAR_CALLED void add_rows(const float* scores, int first, const typename Config::Element* numbers,
                           i64 row_stride, int num_rows, float* sums) {
  const auto add = [&](int row, int count) LSSAR_WIDE {
    multiply_values<Config, Config::kRows, kDim, Config::kGradRows, 1, Config::kGradKeys,
                    Config::kHasPairs>(
        scores + row / (Config::kHasPairs ? 2 : 1) * Config::kGradKeys, numbers, row_stride, count,
        sums);
  };
  if constexpr (Config::kHasPairs) {
    // The row before shares the pair, and sees none of these keys.
    if (first % 2 != 0) {
      add(first, 1);
      numbers += row_stride;
      ++first;
    }
  }
  add(first, num_rows - first);
}

// How many of the tile's rows there are up to the last one that may see one of kRows keys.
template <class Config>
LSSAR_HOST int rows_that_see(const AttentionParams& params, const RowPlace& place, int num_rows,
                             i64 first_key) {
  const i64 end =
      seeing_rows<Config>(params, first_key, first_key + Config::kRows).end - place.first_row;
  return end < num_rows ? (int)end : num_rows;
}

// Adds the tile of `num_rows` rows to the sums of `num_keys` keys. Overwrites its weights. kRows
// keys at a time leave out the first rows, which see none of them.
template <class Config>
LSSAR_HOST void add_tile(const AttentionParams& params, const RowPlace& place, int num_rows,
                         i64 first_key, int num_keys, DkdvScratch<Config>& scratch) {
  using Element = typename Config::Element;
  const RowFactors<Config> factors(scratch.tile, num_rows);
  const int all_rows = num_rows;
  for (int key = 0; key < num_keys; key += Config::kRows) {
    if constexpr (Config::kHasWindow) num_rows = all_rows;
    const i64 first = first_query<Config>(params, first_key + key) - place.first_row;
    if (first >= num_rows) return;  // later keys are seen even less
    if constexpr (Config::kHasWindow)
      num_rows = rows_that_see<Config>(params, place, all_rows, first_key + key);
    const int skipped = first < 0 ? 0 : (int)first;
    const i64 row = place.first_row + skipped;
    add_rows<Config, Config::kHeadDimV>(
        factors.weights + key, skipped,
        row_pointer<const Element>(params.grad_o, place.batch, place.head, row),
        params.grad_o.row_stride, num_rows, scratch.value_sums + key * Config::kHeadDimVPadded);
    add_rows<Config, Config::kHeadDim>(
        factors.gradients + key, skipped,
        row_pointer<const Element>(params.q, place.batch, place.head, row), params.q.row_stride,
        num_rows, scratch.key_sums + key * Config::kHeadDimPadded);
  }
}

// With a causal mask the first keys are seen by the most queries. They are the last blocks, because
// the device starts the last blocks first. NOTE: to sum dq it must, or a block waits for ever.
template <class Config>
LSSAR_HOST void backward_dkdv(const AttentionParams& params, u32 block, void* memory) {
  using Element = typename Config::Element;
  DkdvScratch<Config>& scratch = *(DkdvScratch<Config>*)memory;
  const i64 queries = seq_q<Config>(params), keys = seq_k<Config>(params);
  const i64 blocks = (keys + Config::kGradKeys - 1) / Config::kGradKeys;
  const i64 slice = block / blocks;
  const i64 first_key = (blocks - 1 - block % blocks) * Config::kGradKeys;
  const int num_keys =
      keys - first_key < Config::kGradKeys ? (int)(keys - first_key) : Config::kGradKeys;
  for (int i = 0; i < Config::kGradKeys * Config::kHeadDimPadded; ++i) scratch.key_sums[i] = 0.0f;
  for (int i = 0; i < Config::kGradKeys * Config::kHeadDimVPadded; ++i)
    scratch.value_sums[i] = 0.0f;

  RowPlace place;
  place.batch = slice / params.kv_heads;
  place.kv_head = slice % params.kv_heads;
  const i64 group = params.heads / params.kv_heads;
  for (place.head = place.kv_head * group; place.head < (place.kv_head + 1) * group; ++place.head) {
    // Whole tiles, so that all blocks of keys have the same ones.
    const i64 first = first_query<Config>(params, first_key);
    place.first_row = first - first % Config::kGradRows;
    for (; place.first_row < queries; place.first_row += Config::kGradRows) {
      if constexpr (Config::kHasWindow) {
        if (place.first_row >= seeing_rows<Config>(params, first_key, first_key + num_keys).end)
          break;
        const bool is_seen = seen_by_some<Config>(params, place.first_row, Config::kGradRows)
                                 .has_some(first_key, Config::kGradKeys);
        if (!is_seen) continue;
      }
      const i64 left = queries - place.first_row;
      const int num_rows = left < Config::kGradRows ? (int)left : Config::kGradRows;
      fill_tile<Config>(params, place, num_rows, first_key, scratch.tile);
      add_tile<Config>(params, place, num_rows, first_key, num_keys, scratch);
      if constexpr (Config::kSumsDq)
        add_query_gradients<Config>(params, place, num_rows, first_key, scratch.tile.gradients,
                                    ((QuerySums<Config>*)(&scratch + 1))->sums);
    }
  }
  for (int j = 0; j < num_keys; ++j) {
    if constexpr (Config::kHasWindow) {
      if (!is_key_seen<Config>(params, first_key + j)) {
        clear_gradients<Config>(params, place, first_key + j);
        continue;
      }
    }
    store_projected<Config>(
        row_pointer<const Element>(params.k, place.batch, place.kv_head, first_key + j),
        scratch.key_sums + j * Config::kHeadDimPadded, queries != 0,
        row_pointer<Element>(params.grad_k, place.batch, place.kv_head, first_key + j));
    Element* const to =
        row_pointer<Element>(params.grad_v, place.batch, place.kv_head, first_key + j);
    store_scaled<Config>(to, scratch.value_sums + j * Config::kHeadDimVPadded, 1.0f, false);
  }
}

}  // namespace lssar_device
