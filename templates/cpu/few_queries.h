// The forward of few queries, as in decoding, where reading keys and values takes the time.
//
// Without kIsInvariant nothing is packed. Chunks of kFewKeys keys are blocks of work, so that
// threads share a head's keys:
//
//   few_scores   makes activations of a chunk's keys, and their sum and largest score, for every
//                row that shares the keys (this file);
//   few_values   adds the sums of all chunks, makes weights, and multiplies the values that matter
//                by these (cpu/few_values.h);
//   few_outputs  adds the outputs of all chunks (cpu/few_outputs.h).
//
// Chunks are added in the order of their keys, so threads do not change the bits. A score has other
// bits than in cpu/forward.h, because its products are summed in another order.
//
// kIsInvariant: every sum has the bits of cpu/forward.h. Chunks are its blocks of keys, and
// few_scores packs a chunk's keys, a panel at a time, for products in the same order.
#pragma once

#include "templates/cpu/forward_output.h"
#include "templates/cpu/key_walk.h"
#include "templates/cpu/lockstep.h"
#include "templates/cpu/pack_keys.h"
#include "templates/cpu/shuffle.h"

namespace lssar_device {

// Vectors of keys that are evaluated at once. Every row of the workspace has whole steps of them.
constexpr int kFewVectors = 4;

// What the workspace has of a kv head, in the place of panels. A row is a query of one of the heads
// that share the keys: row r is query r % queries of the group's head r / queries.
template <class Config>
struct FewSlice {
  i64 batch, kv_head;
  i64 queries, group, rows, keys, chunks;
  i64 key_pitch, chunk_pitch;  // whole lines for any number of lanes
  float* begin;

  LSSAR_HOST FewSlice(const AttentionParams& params, i64 slice)
      : batch(slice / params.kv_heads),
        kv_head(slice % params.kv_heads),
        queries(seq_q<Config>(params)),
        group(params.heads / params.kv_heads),
        rows(queries * group),
        keys(seq_k<Config>(params)),
        chunks((keys + Config::kFewKeys - 1) / Config::kFewKeys),
        key_pitch((keys + 63) / 64 * 64),
        chunk_pitch((chunks + 15) / 16 * 16),
        begin(params.k_inv_norm) {
    const i64 floats = rows * (key_pitch + 3 * chunk_pitch + chunks * Config::kFewPitchV);
    begin += (u32)slice % (u32)params.panel_slices * floats;
  }

  // Activations of a row, and then their weights: [rows, key_pitch].
  LSSAR_HOST float* activations(i64 row) const { return begin + row * key_pitch; }
  // A number of every chunk, for a row: the sum of activations (0), the largest score (1), the sum
  // of weights (2). [3, rows, chunk_pitch].
  LSSAR_HOST float* of_chunks(int number, i64 row) const {
    return begin + rows * key_pitch + (number * rows + row) * chunk_pitch;
  }
  // What a chunk adds to a row's output: [chunks, rows, kFewPitchV].
  LSSAR_HOST float* outputs(i64 chunk, i64 row) const {
    return begin + rows * (key_pitch + 3 * chunk_pitch) + (chunk * rows + row) * Config::kFewPitchV;
  }
  LSSAR_HOST i64 head_of(i64 row) const { return kv_head * group + row / queries; }
};

// A chunk of a kv head's keys.
template <class Config>
struct FewChunk {
  FewSlice<Config> slice;
  i64 chunk, first_key;
  int keys;

  LSSAR_HOST FewChunk(const AttentionParams& params, u32 block)
      : slice(params, block / chunks_of(params)), chunk(block % chunks_of(params)) {
    first_key = chunk * Config::kFewKeys;
    const i64 left = slice.keys - first_key;
    keys = left < Config::kFewKeys ? (int)left : Config::kFewKeys;
  }
  LSSAR_HOST static i64 chunks_of(const AttentionParams& params) {
    return (seq_k<Config>(params) + Config::kFewKeys - 1) / Config::kFewKeys;
  }
};

// Numbers of a line of memory.
template <class Number>
constexpr int kLineNumbers = 64 / (int)sizeof(Number);

// Lane l is the product of row l of `rows` with `other`, or with itself if that is null. Rows have
// factors (cpu/factors.h). If `later` is not null, prefetches kLanes rows from there on, a line at
// a time between the products. All at once they would take every line fill buffer of the core.
// Lines are read in the order of their addresses.
template <class Config>
LSSAR_HOST Floats<Config> row_products(const float* rows, i64 row_stride, const float* other,
                                       const float* later) {
  constexpr int kSteps = steps_of<Config>(Config::kHeadDim);
  constexpr int kWhole = kSteps / Config::kLanes * Config::kLanes;
  constexpr int kChunk = 4 * Config::kLanes;
  Floats<Config> acc[Config::kLanes] = {};
  const auto add = [&](int i, int d, auto is_part) {
    constexpr int kCount = decltype(is_part)::kValue ? kSteps - kWhole : Config::kLanes;
    const Factors<Config> x = load_factors<Config, kCount>(rows + i * row_stride + d);
    acc[i] = other != nullptr
                 ? add_products<Config>(x, load_factors<Config, kCount>(other + d), acc[i])
                 : add_squares<Config>((Floats<Config>)x, acc[i]);
  };
  LSSAR_ROLLED
  for (int chunk = 0; chunk < kWhole; chunk += kChunk) {
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) {
      LSSAR_UNROLL
      for (int d = 0; d < kChunk; d += Config::kLanes) {
        if (chunk + d >= kWhole) continue;
        if (later != nullptr && d % kLineNumbers<float> == 0)
          __builtin_prefetch(later + i * row_stride + chunk + d);
        add(i, chunk + d, Constant<false>{});
      }
    }
  }
  if constexpr (kWhole != kSteps) {
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) add(i, kWhole, Constant<true>{});
  }
  return lane_sums<Config>(acc);
}

// Prefetches a key's row.
template <class Config>
LSSAR_HOST void prefetch_key(const typename Config::Element* key) {
  LSSAR_ROLLED
  for (int d = 0; d < Config::kHeadDim; d += kLineNumbers<typename Config::Element>)
    __builtin_prefetch(key + d);
}

// The factors of kLanes keys: the caller's own memory if it has floats, else a copy. Only `count`
// keys exist; the last one is repeated. load_keys prefetches the keys kAhead later while it copies.
// Without a copy, row_products prefetches them, from `later` on. Where too few keys follow, both
// prefetch the present keys instead.
template <class Config>
struct KeyRows {
  // Measured with AVX-512 and 65536 keys in memory: the best of 1, 2 and 4 times kLanes.
  static constexpr int kAhead = (Config::kHeadDim > 64 ? 1 : 2) * Config::kLanes;
  const float* rows;
  const float* later;
  i64 row_stride;
  static constexpr int kSteps = steps_of<Config>(Config::kHeadDim);
  alignas(64) float copy[Config::kLanes * kSteps];

  LSSAR_HOST void load_keys(const typename Config::Element* keys, i64 stride, int count) {
    const i64 ahead = count >= kAhead + Config::kLanes ? kAhead * stride : 0;
    if constexpr (sizeof(typename Config::Element) == sizeof(float)) {
      rows = (const float*)keys;
      later = rows + ahead;
      row_stride = stride;
      if (count >= Config::kLanes) return;
    }
    for (int i = 0; i < Config::kLanes; ++i) {
      const typename Config::Element* const key = keys + (i < count ? i : count - 1) * stride;
      prefetch_key<Config>(key + ahead);
      if constexpr (Config::kHasPairs)
        __builtin_memcpy(copy + i * kSteps, key, Config::kHeadDim * sizeof(*key));
      else
        load_row<Config, Config::kHeadDim>(key, copy + i * kSteps);
    }
    rows = copy;
    later = nullptr;
    row_stride = kSteps;
  }
};

// Multiplies a chunk's keys, divided by their norms, by `num_rows` rows.
template <class Config>
LSSAR_HOST void multiply_chunk(const AttentionParams& params, const FewChunk<Config>& of,
                               const float* rows, int num_rows) {
  using Element = typename Config::Element;
  const i64 stride = params.k.row_stride;
  const Element* const keys =
      row_pointer<const Element>(params.k, of.slice.batch, of.slice.kv_head, of.first_key);
  for (int key = 0; key < of.keys; key += Config::kLanes) {
    KeyRows<Config> group;
    group.load_keys(keys + key * stride, stride, of.keys - key);
    Floats<Config> inverse =
        row_products<Config>(group.rows, group.row_stride, nullptr, group.later);
    LSSAR_UNROLL
    for (int i = 0; i < Config::kLanes; ++i) inverse[i] = inverse_norm<Config>(inverse[i]);
    for (int r = 0; r < num_rows; ++r)
      store<Config>(
          of.slice.activations(r) + of.first_key + key,
          row_products<Config>(group.rows, group.row_stride, rows + r * Config::kHeadDim, nullptr) *
              inverse);
  }
}

// kIsInvariant: what few_scores needs of a thread's memory.
template <class Config>
struct FewScratch {
  alignas(64) float queries[Config::kFewRows * Config::kHeadDim];
  alignas(64) float panel[Config::kPanelRows * Config::kPanelKeys];
};

// Multiplies a panel by kRows rows, and stores the scores `pitch` numbers apart.
template <class Config, int kRows>
LSSAR_HOST void multiply_few_rows(const float* queries, const float* panel, float* to, i64 pitch) {
  Floats<Config> acc[kRows][Config::kPanelVectors];
  multiply_keys<Config, kRows, Config::kHeadDim>(queries, panel, acc);
  LSSAR_UNROLL
  for (int i = 0; i < kRows * Config::kPanelVectors; ++i) {
    constexpr int kVectors = Config::kPanelVectors;
    store<Config>(to + i / kVectors * pitch + i % kVectors * Config::kLanes,
                  acc[i / kVectors][i % kVectors]);
  }
}

// kIsInvariant: makes scores of a chunk's keys as cpu/forward.h does.
template <class Config>
LSSAR_HOST void score_panels(const AttentionParams& params, const FewChunk<Config>& of,
                             FewScratch<Config>& scratch) {
  const FewSlice<Config>& slice = of.slice;
  for (int r = 0; r < slice.rows; ++r) {
    const RowPlace place = {slice.batch, slice.head_of(r), slice.kv_head, 0};
    const i64 row = r % slice.queries, visible = visible_keys<Config>(params, row);
    load_query<Config>(params, place, row, visible, scratch.queries + r * Config::kHeadDim,
                       [&](float squares)
                           LSSAR_WIDE { return query_scale<Config>(squares, visible); });
  }
  const i64 stride = params.k.row_stride;
  const auto* const keys = row_pointer<const typename Config::Element>(params.k, slice.batch,
                                                                       slice.kv_head, of.first_key);
  for (int key = 0; key < of.keys; key += Config::kPanelKeys) {
    for (int next = key + Config::kPanelKeys; next < key + 2 * Config::kPanelKeys && next < of.keys;
         ++next)
      prefetch_key<Config>(keys + next * stride);
    pack_panel<Config>(params, slice.batch, slice.kv_head, of.first_key + key, scratch.panel);
    int r = 0;
    const auto multiply = [&](auto rows) LSSAR_WIDE {
      constexpr int kRows = decltype(rows)::kValue ? 4 : 1;
      for (; r + kRows <= slice.rows; r += kRows)
        multiply_few_rows<Config, kRows>(scratch.queries + r * Config::kHeadDim, scratch.panel,
                                         slice.activations(r) + of.first_key + key,
                                         slice.key_pitch);
    };
    multiply(Constant<true>{});
    multiply(Constant<false>{});
  }
}

// Turns a row's products with `keys` keys into activations, in place. The row sees the first `seen`
// of them; the others have the activation kHidden. `scale`: from a product to a score in bits.
template <class Config>
LSSAR_HOST void activate_chunk(float* products, int keys, int seen, float scale, float& of_sum,
                               float& of_most) {
  constexpr int kAddedFirst = Config::kIsInvariant ? Config::kPanelVectors : kFewVectors;
  Floats<Config> sum = {}, most = splat<Config>(-infinity());
  for (int key = 0; key < keys; key += kFewVectors * Config::kLanes) {
    Floats<Config> x[kFewVectors], u[kFewVectors], activation[kFewVectors];
    Ints<Config> is_seen[kFewVectors];
    LSSAR_UNROLL
    for (int c = 0; c < kFewVectors; ++c) {
      is_seen[c] = lane_numbers<Config>() + (key + c * Config::kLanes) < seen;
      const Floats<Config> score = load<Config>(products + key + c * Config::kLanes) * scale;
      x[c] = is_seen[c] ? score : splat<Config>(-infinity());
    }
    exp2_of_minus_abs<Config>(x, u);
    softplus_from<Config>(x, u, activation);
    Floats<Config> part = {};
    LSSAR_UNROLL
    for (int c = 0; c < kFewVectors; ++c) {
      const Floats<Config> seen_one = seen_activation<Config>(x[c], activation[c]);
      part = c % kAddedFirst == 0 ? seen_one : part + seen_one;
      if ((c + 1) % kAddedFirst == 0) sum += part;
      most = larger<Config>(x[c], most);
      store<Config>(products + key + c * Config::kLanes,
                    is_seen[c] ? activation[c] : splat<Config>(kHidden));
    }
  }
  of_sum = lane_sum<Config>(sum);
  of_most = lane_maximum<Config>(most);
}

// Whether a query sees a key of the chunk.
template <class Config>
LSSAR_HOST bool is_chunk_seen(const AttentionParams& params, const FewChunk<Config>& of) {
  return seen_by_some<Config>(params, 0, of.slice.queries).has_some(of.first_key, of.keys);
}

// Within windows: numbers of the keys that the row does not see become `hidden`, and the others are
// multiplied by `scale`.
template <class Config>
LSSAR_HOST void hide_in_chunk(const VisibleKeys& seen, i64 first_key, int keys, float scale,
                              float hidden, float* numbers) {
  for (int key = 0; key < keys; key += Config::kLanes) {
    const Ints<Config> is_seen = window_lanes<Config>(seen, first_key + key);
    const Floats<Config> x = load<Config>(numbers + key) * scale;
    store<Config>(numbers + key, is_seen ? x : splat<Config>(hidden));
  }
}

// The same as activate_chunk within windows.
template <class Config>
LSSAR_HOST void activate_window(const VisibleKeys& seen, const FewChunk<Config>& of, float scale,
                                float* products, float& of_sum, float& of_most) {
  hide_in_chunk<Config>(seen, of.first_key, of.keys, scale, -infinity(), products);
  // A score of -infinity adds less than a float of the sum resolves.
  activate_chunk<Config>(products, of.keys, of.keys, 1.0f, of_sum, of_most);
  hide_in_chunk<Config>(seen, of.first_key, of.keys, 1.0f, kHidden, products);
}

template <class Config>
LSSAR_HOST void few_scores(const AttentionParams& params, u32 block,
                           [[maybe_unused]] void* memory) {
  using Element = typename Config::Element;
  const FewChunk<Config> of(params, block);
  const FewSlice<Config>& slice = of.slice;
  if constexpr (Config::kHasWindow) {
    for (int r = 0; r < slice.rows; ++r) {
      slice.of_chunks(0, r)[of.chunk] = 0.0f;
      slice.of_chunks(1, r)[of.chunk] = -infinity();
    }
    if (!is_chunk_seen<Config>(params, of)) return;
  }
  [[maybe_unused]] float squares[Config::kFewRows];
  if constexpr (Config::kIsInvariant) {
    score_panels<Config>(params, of, *(FewScratch<Config>*)memory);
  } else {
    alignas(64) float rows[Config::kFewRows * Config::kHeadDim];
    for (int r = 0; r < slice.rows; ++r)
      squares[r] = load_row_factors<Config, Config::kHeadDim>(
          row_pointer<const Element>(params.q, slice.batch, slice.head_of(r), r % slice.queries),
          rows + r * Config::kHeadDim);
    multiply_chunk<Config>(params, of, rows, (int)slice.rows);
  }
  for (int r = 0; r < slice.rows; ++r) {
    const i64 visible = visible_keys<Config>(params, r % slice.queries);
    const i64 left = visible - of.first_key;
    const int seen = left < 0 ? 0 : left < of.keys ? (int)left : of.keys;
    float scale = 1.0f;  // kIsInvariant: queries have their scale
    if constexpr (!Config::kIsInvariant)
      scale = visible == 0 ? 0.0f : query_scale<Config>(squares[r], visible);
    if constexpr (Config::kHasWindow) {
      activate_window<Config>(seen_window<Config>(params, r % slice.queries), of, scale,
                              slice.activations(r) + of.first_key, slice.of_chunks(0, r)[of.chunk],
                              slice.of_chunks(1, r)[of.chunk]);
    } else {
      activate_chunk<Config>(slice.activations(r) + of.first_key, of.keys, seen, scale,
                             slice.of_chunks(0, r)[of.chunk], slice.of_chunks(1, r)[of.chunk]);
    }
  }
}

}  // namespace lssar_device
