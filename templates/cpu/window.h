// Windows: a position sees the keys [0, always) and [begin, end).
//
//   [0, always)    the first kPrefix keys, and the first kWindowSinks of those before `end`
//   [begin, end)   from kWindowLeft keys before it to kWindowRight behind it (-1: no limit), only
//                  its own chunk of kChunk keys (0: no chunks). A causal mask is a kWindowRight of
//                  0.
//
// Without Config::kHasWindow a position sees all keys that the causal mask leaves.
//
// Both ranges of a later position begin and end later, or where they did. So the keys of several
// positions follow from the first and the last of them.
#pragma once

#include "templates/cpu/types.h"

namespace lssar_device {

LSSAR_HOST i64 least_of(i64 a, i64 b) { return a < b ? a : b; }
LSSAR_HOST i64 most_of(i64 a, i64 b) { return a > b ? a : b; }
LSSAR_HOST i64 bounded(i64 x, i64 low, i64 high) { return x < low ? low : x < high ? x : high; }

// The first key of a position's chunk. Positions before the first key have chunks without keys.
template <class Config>
LSSAR_HOST i64 chunk_begin(i64 position) {
  const i64 chunk = position < 0 ? -((Config::kChunk - 1 - position) / Config::kChunk)
                                 : position / Config::kChunk;
  return chunk * Config::kChunk;
}

// Keys before `always`, and those from `begin` to `end` - 1. 0 <= always <= begin <= end. The host
// has the same in codegen/visible_keys.h, and GPUs in templates/tile/window.cuh.
struct VisibleKeys {
  i64 always, begin, end;

  LSSAR_HOST i64 count() const { return always + (end - begin); }
  LSSAR_HOST bool has(i64 key) const { return key < always || (key >= begin && key < end); }
  // Whether one of the keys [first, first + count) is among them, or all are.
  LSSAR_HOST bool has_some(i64 first, i64 count) const {
    return first < always || (first < end && begin < first + count && begin < end);
  }
  LSSAR_HOST bool has_all(i64 first, i64 count) const {
    return first + count <= always || (begin <= first && first + count <= end);
  }
};

// What a position sees of all keys.
template <class Config>
LSSAR_HOST VisibleKeys window_keys(i64 position, i64 keys) {
  i64 begin = 0, end = keys;
  if constexpr (Config::kWindowLeft >= 0) begin = position - Config::kWindowLeft;
  if constexpr (Config::kWindowRight >= 0) end = least_of(end, position + 1 + Config::kWindowRight);
  if constexpr (Config::kChunk > 0) {
    const i64 chunk = chunk_begin<Config>(position);
    begin = most_of(begin, chunk);
    end = least_of(end, chunk + Config::kChunk);
  }
  end = most_of(end, 0);
  const i64 always = least_of(most_of(Config::kPrefix, least_of(Config::kWindowSinks, end)), keys);
  begin = most_of(begin, always);
  return {always, begin, most_of(begin, end)};
}

// Those among `count` keys from `first` on, counted from there.
LSSAR_HOST VisibleKeys window_in_range(const VisibleKeys& all, i64 first, i64 count) {
  return {bounded(all.always - first, 0, count), bounded(all.begin - first, 0, count),
          bounded(all.end - first, 0, count)};
}

}  // namespace lssar_device
