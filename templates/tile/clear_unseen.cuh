// Within windows: keys that no row of the call sees, in tiles that TMA has loaded. It loads whole
// tiles, and such a key or value may be NaN. Where a product has the keys of a tile as its depth,
// they must be zeros, because 0 times NaN is NaN.
//
// kHasLengths: the same of rows past the end of a sequence. They may be the next sequence's.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// Keys from `first` to `end` - 1.
struct UnseenKeys {
  int first, end;

  LSSAR_DEVICE bool has(i64 key) const { return key >= first && key < end; }
  // Whether one of the `count` keys from `from` on is among them.
  LSSAR_DEVICE bool meets(i64 from, int count) const {
    return maximum(from, i64{first}) < minimum(from + count, i64{end});
  }
};

// Rows, keys or queries, of a sequence of `length`: those in `within`, and all past its end.
struct UnseenInSequence {
  UnseenKeys within;
  int length;

  LSSAR_DEVICE bool has(i64 row) const { return row >= length || within.has(row); }
  LSSAR_DEVICE bool meets(i64 from, int count) const {
    return from + count > length || within.meets(from, count);
  }
};

template <class Config>
using UnseenRows = typename Select<Config::kHasLengths, UnseenInSequence, UnseenKeys>::Type;

// The keys that no row of the call sees: those between the first ones and the window of its first
// row. There are none behind the window of its last row, which is at the last key.
template <class Config>
LSSAR_DEVICE UnseenKeys unseen_keys(const AttentionParams& params) {
  if (seq_q<Config>(params) == 0) return {0, static_cast<int>(seq_k<Config>(params))};
  const VisibleKeys seen =
      keys_of_some(num_visible_keys<Config>(params, 0),
                   num_visible_keys<Config>(params, seq_q<Config>(params) - 1));
  return {seen.always, seen.begin};
}

// Writes zeros over those of the tile's rows from row0 to end_row - 1 that have such a key. The
// tile's first key is `first`. kThreads threads call it, and `thread` is the number of one. They
// wait for one another before products read the tile.
template <class Config, int kThreads, class Tile>
LSSAR_DEVICE void clear_unseen_rows(Tile tile, const UnseenRows<Config>& unseen, i64 first,
                                    int row0, int end_row, int thread) {
  constexpr int kVectorsPerRow = kSwizzleBytes / kVectorBytes;
  const u32 zeros[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int at = row0 * kVectorsPerRow + thread; at < end_row * kVectorsPerRow; at += kThreads) {
    if (!unseen.has(first + at / kVectorsPerRow)) continue;
#pragma unroll
    for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
      store_shared(tile.base + chunk * Tile::kChunkBytes + at * kVectorBytes, zeros);
  }
  fence_async_shared();
}

// kHasLengths: the queries past the sequence's end.
template <class Config>
LSSAR_DEVICE UnseenInSequence unseen_queries(const AttentionParams& params) {
  return {{0, 0}, static_cast<int>(seq_q<Config>(params))};
}

// kHasLengths: the keys that no row of the call sees, and all keys past the sequence's end.
template <class Config>
LSSAR_DEVICE UnseenInSequence unseen_in_sequence(const AttentionParams& params) {
  UnseenInSequence unseen = {{0, 0}, static_cast<int>(seq_k<Config>(params))};
  if constexpr (Config::kHasWindow) unseen.within = unseen_keys<Config>(params);
  return unseen;
}

}  // namespace lssar_device
