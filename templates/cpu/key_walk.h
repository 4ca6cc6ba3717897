// Which keys rows see within windows (window.h), and how rows walk over them.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// The keys of the call that a row sees.
template <class Config>
LSSAR_HOST VisibleKeys seen_window(const AttentionParams& params, i64 row) {
  const VisibleKeys all = window_of_row<Config>(params, row);
  if constexpr (!Config::kIsRange) return all;
  return window_in_range(all, params.first_key, seq_k<Config>(params));
}

// The keys of the call that one of `num_rows` rows sees, or that all of them see, as far as these
// rows exist. REQUIRES: the first one does.
template <class Config>
LSSAR_HOST VisibleKeys seen_by_some(const AttentionParams& params, i64 first_row, i64 num_rows) {
  const i64 last_row = least_of(first_row + num_rows, seq_q<Config>(params)) - 1;
  const VisibleKeys first = seen_window<Config>(params, first_row);
  const VisibleKeys last = seen_window<Config>(params, last_row);
  return {last.always, most_of(first.begin, last.always), last.end};
}
template <class Config>
LSSAR_HOST VisibleKeys common_keys(const AttentionParams& params, i64 first_row, i64 num_rows) {
  const i64 last_row = least_of(first_row + num_rows, seq_q<Config>(params)) - 1;
  const VisibleKeys first = seen_window<Config>(params, first_row);
  const i64 begin = most_of(seen_window<Config>(params, last_row).begin, first.always);
  return {first.always, begin, most_of(first.end, begin)};
}

// How rows walk over the keys that one of them sees: kBlock keys at a time, from the first key on,
// and then from the window's first one. Blocks of the walk begin at multiples of kAlign. The walk
// ends at keys.end.
template <class Config, int kBlock, int kAlign>
struct KeyWalk {
  VisibleKeys keys;

  LSSAR_HOST KeyWalk(const AttentionParams& params, const RowPlace& place, i64 num_rows)
      : keys(seen_by_some<Config>(params, place.first_row, num_rows)) {
    // A range may lie beside the window: then only the keys before `always` are visited.
    if (keys.begin >= keys.end) keys.begin = keys.end = keys.always;
    keys.always = least_of((keys.always + kAlign - 1) / kAlign * kAlign, keys.end);
    keys.begin = most_of(keys.begin / kAlign * kAlign, keys.always);
    if (keys.begin == keys.always) keys.begin = keys.always = 0;
  }

  LSSAR_HOST i64 first() const { return keys.always > 0 ? 0 : keys.begin; }
  // From a block to the next one.
  LSSAR_HOST i64 step(i64 key) const {
    return key < keys.always && key + kBlock >= keys.always ? keys.begin - key : i64{kBlock};
  }
  LSSAR_HOST i64 end_of(i64 key) const { return key < keys.always ? keys.always : keys.end; }
  // Where the block's scores are kept: as if the walk had no gap.
  LSSAR_HOST i64 place_of(i64 key) const {
    const i64 before = (keys.always + kBlock - 1) / kBlock * kBlock;
    return key < keys.always ? key : before + key - keys.begin;
  }
};

// Calls act(key) for the keys [first_key, first_key + kPanelKeys) that the row does not see.
template <class Config, class Act>
LSSAR_HOST void for_each_hidden(const VisibleKeys& seen, i64 first_key, const Act& act) {
  constexpr i64 kKeys = Config::kPanelKeys;
  const int gap_end = (int)bounded(seen.begin - first_key, 0, kKeys);
  for (int key = (int)bounded(seen.always - first_key, 0, kKeys); key < gap_end; ++key) act(key);
  for (int key = (int)bounded(seen.end - first_key, 0, kKeys); key < Config::kPanelKeys; ++key)
    act(key);
}

// Which of kLanes keys a row sees.
template <class Config>
LSSAR_HOST Ints<Config> window_lanes(const VisibleKeys& seen, i64 first_key) {
  const int most = Config::kLanes;
  const Ints<Config> lanes = lane_numbers<Config>();
  const int always = (int)bounded(seen.always - first_key, 0, most);
  const int begin = (int)bounded(seen.begin - first_key, 0, most);
  const int end = (int)bounded(seen.end - first_key, 0, most);
  return (lanes < always) | ((lanes >= begin) & (lanes < end));
}

// The queries that may see a key of [first_key, end_key): [begin, end).
struct SeeingRows {
  i64 begin, end;
};
template <class Config>
LSSAR_HOST SeeingRows seeing_rows(const AttentionParams& params, i64 first_key, i64 end_key) {
  const i64 queries = seq_q<Config>(params);
  const i64 shift = queries - seq_k<Config>(params);  // from positions to rows
  SeeingRows rows = {0, queries};
  if (first_key < Config::kPrefix) return rows;
  if constexpr (Config::kWindowRight >= 0)
    rows.begin = most_of(rows.begin, first_key - Config::kWindowRight + shift);
  if constexpr (Config::kChunk > 0)
    rows.begin = most_of(rows.begin, chunk_begin<Config>(first_key) + shift);
  if (first_key < Config::kWindowSinks) return rows;
  if constexpr (Config::kWindowLeft >= 0)
    rows.end = least_of(rows.end, end_key + Config::kWindowLeft + shift);
  if constexpr (Config::kChunk > 0)
    rows.end = least_of(rows.end, chunk_begin<Config>(end_key - 1) + Config::kChunk + shift);
  return rows;
}

}  // namespace lssar_device
