// Windows: which keys a row sees, and which tiles of keys a block visits.
//
// codegen/visible_keys.h has the rule, and computes the same for the host. kWindowLeft and
// kWindowRight are -1 and kChunk is 0 where they limit nothing. A causal mask is a kWindowRight of
// 0.
#pragma once

#include "templates/ptx/index.cuh"
#include "templates/ptx/math.cuh"

namespace lssar_device {

// A set of keys: [0, always) and [begin, end), where always <= begin <= end. Converts to the number
// of keys in it.
struct VisibleKeys {
  int always, begin, end;

  // The first `count` keys.
  LSSAR_DEVICE VisibleKeys(i64 count = 0)
      : always(static_cast<int>(count)), begin(always), end(always) {}

  LSSAR_DEVICE operator i64() const { return i64{always} + (end - begin); }
  LSSAR_DEVICE bool has(i64 key) const { return key < always || (key >= begin && key < end); }
  // Whether all of the `count` keys from `first` on are among them.
  LSSAR_DEVICE bool has_all(i64 first, int count) const {
    return first + count <= always || (first >= begin && first + count <= end);
  }
};

// The keys of a row, with a window or without one, where they are the first ones: their number.
template <class Config>
using RowKeys = typename Select<Config::kHasWindow, VisibleKeys, i64>::Type;

// The keys of the row at `position` among num_keys keys.
template <class Config>
LSSAR_DEVICE VisibleKeys window_keys(i64 position, i64 num_keys) {
  i64 low = 0, end = num_keys;
  if constexpr (Config::kWindowLeft >= 0) low = maximum(position - Config::kWindowLeft, low);
  if constexpr (Config::kWindowRight >= 0) end = minimum(position + Config::kWindowRight + 1, end);
  if constexpr (Config::kChunk > 0) {
    const int within = static_cast<int>(position) % Config::kChunk;
    const i64 chunk = position - (within < 0 ? within + Config::kChunk : within);
    low = maximum(low, chunk);
    end = minimum(end, chunk + Config::kChunk);
  }
  const i64 sinks = maximum(minimum(end, i64{Config::kWindowSinks}), i64{0});
  const i64 always = maximum(sinks, minimum(num_keys, i64{Config::kPrefix}));
  low = maximum(low, always);
  VisibleKeys keys(always);
  if (low < end) {
    keys.begin = static_cast<int>(low);
    keys.end = static_cast<int>(end);
  }
  return keys;
}

// The visible keys that lie in [first, first + count), as offsets from `first`.
LSSAR_DEVICE VisibleKeys window_in_range(const VisibleKeys& all, i64 first, i64 count) {
  const auto clamped = [&](int key) {
    return static_cast<int>(minimum(maximum(key - first, i64{0}), count));
  };
  VisibleKeys keys;
  keys.always = clamped(all.always);
  keys.begin = clamped(all.begin);
  keys.end = clamped(all.end);
  return keys;
}

// The keys that all rows of a tile see, given those of its first row and its last. These two are
// enough, because neither end decreases from one row to the next.
LSSAR_DEVICE VisibleKeys common_keys(const VisibleKeys& first, const VisibleKeys& last) {
  VisibleKeys keys(first.always);
  keys.begin = maximum(last.begin, first.always);
  keys.end = maximum(first.end, keys.begin);
  return keys;
}

// The keys that at least one row of a tile sees, given those of its first row and its last.
LSSAR_DEVICE VisibleKeys keys_of_some(const VisibleKeys& first, const VisibleKeys& last) {
  VisibleKeys keys(last.always);
  keys.begin = maximum(first.begin, last.always);
  keys.end = maximum(last.end, keys.begin);
  return keys;
}

// The key tiles that a block visits, in order: the first `always` tiles, then, after a gap of
// `skipped` tiles, the others. `count` of them in all; converts to that. `seen`: the keys that some
// row of the block sees.
struct VisitedTiles {
  int always, skipped, count;
  VisibleKeys seen;

  // The first n tiles.
  LSSAR_DEVICE VisitedTiles(int n = 0) : always(n), skipped(0), count(n) {}

  LSSAR_DEVICE operator int() const { return count; }
};

// With a window, or without one, where they are the first ones: their number.
template <class Config>
using KeyTiles = typename Select<Config::kHasWindow, VisitedTiles, int>::Type;

// The n-th of them.
template <class Config>
LSSAR_DEVICE int tile_at(const KeyTiles<Config>& tiles, int n) {
  if constexpr (Config::kHasWindow) return n < tiles.always ? n : n + tiles.skipped;
  return n;
}

// How many of them come before `tile`, which is one of them.
LSSAR_DEVICE int tiles_before(const VisitedTiles& tiles, int tile) {
  return tile < tiles.always ? tile : tile - tiles.skipped;
}

// The tiles of kCols keys that some row of a tile sees a key of, from the keys of its first row and
// its last. A range of keys may lie beside the window, which then has no keys in it.
template <int kCols>
LSSAR_DEVICE VisitedTiles visited_tiles(const VisibleKeys& first, const VisibleKeys& last) {
  const int end = static_cast<int>((i64{last.end} + kCols - 1) / kCols);
  VisitedTiles tiles(static_cast<int>((i64{last.always} + kCols - 1) / kCols));
  const int begin = maximum(first.begin / kCols, tiles.always);
  tiles.skipped = begin - tiles.always;
  if (last.end > first.begin && end > begin) tiles.count += end - begin;
  tiles.seen = keys_of_some(first, last);
  return tiles;
}

// [begin, end): those of the `queries` rows that see at least one key of [first_key, end_key).
struct SeeingRows {
  i64 begin, end;
};
template <class Config>
LSSAR_DEVICE SeeingRows seeing_rows(i64 first_key, i64 end_key, i64 num_keys, i64 queries) {
  const i64 shift = queries - num_keys;  // from positions to rows
  SeeingRows rows = {0, queries};
  if (first_key < Config::kPrefix) return rows;
  if constexpr (Config::kWindowRight >= 0)
    rows.begin = maximum(first_key - Config::kWindowRight + shift, rows.begin);
  if constexpr (Config::kChunk > 0)
    rows.begin = maximum(first_key / Config::kChunk * Config::kChunk + shift, rows.begin);
  if (first_key >= Config::kWindowSinks) {
    if constexpr (Config::kWindowLeft >= 0)
      rows.end = minimum(end_key + Config::kWindowLeft + shift, rows.end);
    if constexpr (Config::kChunk > 0)
      rows.end = minimum(((end_key - 1) / Config::kChunk + 1) * Config::kChunk + shift, rows.end);
  }
  return rows;
}

}  // namespace lssar_device
