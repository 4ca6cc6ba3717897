// Which keys rows see within windows (window.h), and how rows walk over them.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

// The keys of the call that a row sees.
template <class Config>
LSSAR_HOST SeenKeys seen_window(const AttentionParams& params, i64 row) {
  const SeenKeys all = window_of_row<Config>(params, row);
  if constexpr (!Config::kIsRange) return all;
  const i64 first = params.first_key, keys = seq_k<Config>(params);
  return {bounded(all.always - first, 0, keys), bounded(all.begin - first, 0, keys),
          bounded(all.end - first, 0, keys)};
}

// The keys of the call that one of `num_rows` rows sees, or that all of them see, as far as these
// rows exist. REQUIRES: the first one does.
template <class Config>
LSSAR_HOST SeenKeys seen_by_some(const AttentionParams& params, i64 first_row, i64 num_rows) {
  const i64 last_row = least_of(first_row + num_rows, seq_q<Config>(params)) - 1;
  const SeenKeys first = seen_window<Config>(params, first_row);
  const SeenKeys last = seen_window<Config>(params, last_row);
  return {last.always, most_of(first.begin, last.always), most_of(last.end, last.always)};
}
template <class Config>
LSSAR_HOST SeenKeys seen_by_all(const AttentionParams& params, i64 first_row, i64 num_rows) {
  const i64 last_row = least_of(first_row + num_rows, seq_q<Config>(params)) - 1;
  return {seen_window<Config>(params, first_row).always, seen_window<Config>(params, last_row).begin,
          seen_window<Config>(params, first_row).end};
}

// How rows walk over the keys that one of them sees: kBlock keys at a time, from the first key on,
// and then from the window's first one. Blocks of the walk begin at multiples of kAlign. The walk
// ends at keys.end.
template <class Config, int kBlock, int kAlign>
struct KeyWalk {
  SeenKeys keys;

  LSSAR_HOST KeyWalk(const AttentionParams& params, const RowPlace& place, i64 num_rows)
      : keys(seen_by_some<Config>(params, place.first_row, num_rows)) {
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
LSSAR_HOST void for_each_hidden(const SeenKeys& seen, i64 first_key, const Act& act) {
  constexpr i64 kKeys = Config::kPanelKeys;
  const int gap_end = (int)bounded(seen.begin - first_key, 0, kKeys);
  for (int key = (int)bounded(seen.always - first_key, 0, kKeys); key < gap_end; ++key) act(key);
  for (int key = (int)bounded(seen.end - first_key, 0, kKeys); key < Config::kPanelKeys; ++key)
    act(key);
}

// Which of kLanes keys a row sees.
template <class Config>
LSSAR_HOST Ints<Config> window_lanes(const SeenKeys& seen, i64 first_key) {
  const int most = Config::kLanes;
  const Ints<Config> lanes = lane_numbers<Config>();
  const int head = (int)bounded(seen.always - first_key, 0, most);
  const int begin = (int)bounded(seen.begin - first_key, 0, most);
  const int end = (int)bounded(seen.end - first_key, 0, most);
  return (lanes < head) | ((lanes >= begin) & (lanes < end));
}

// The first query that sees a key, and the end of those that see one of `count` keys. Only such
// queries see these keys, but not all of them need to.
template <class Config>
LSSAR_HOST i64 first_window_query(const AttentionParams& params, i64 key) {
  const i64 shift = seq_k<Config>(params) - seq_q<Config>(params);
  if (key < Config::kPrefix) return 0;
  i64 row = 0;
  if constexpr (Config::kIsCausal) row = most_of(row, key - shift);
  if constexpr (Config::kWindowRight >= 0) row = most_of(row, key - Config::kWindowRight - shift);
  if constexpr (Config::kChunk > 0) row = most_of(row, chunk_begin<Config>(key) - shift);
  return row;
}
template <class Config>
LSSAR_HOST i64 end_window_query(const AttentionParams& params, i64 first_key, i64 count) {
  const i64 queries = seq_q<Config>(params), shift = seq_k<Config>(params) - queries;
  if (first_key < Config::kPrefix || first_key < Config::kWindowSinks) return queries;
  const i64 key = first_key + count - 1;
  i64 end = queries;
  if constexpr (Config::kWindowLeft >= 0)
    end = least_of(end, key + 1 + Config::kWindowLeft - shift);
  if constexpr (Config::kChunk > 0)
    end = least_of(end, chunk_begin<Config>(key) + Config::kChunk - shift);
  return end;
}

}  // namespace lssar_device
