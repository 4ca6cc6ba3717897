#include "codegen/visible_keys.h"

#include <algorithm>
#include <limits>

namespace lssar {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;  // beyond any position

// The first position of the chunk that `position` lies in.
int64_t chunk_begin(int64_t chunk, int64_t position) {
  const int64_t within = position % chunk;
  return position - within - (within < 0 ? chunk : 0);
}

// lo and hi of a row's position, not clamped to the keys.
struct Limits {
  int64_t low = -kFar, high = kFar;
};
Limits limits_at(const Problem& problem, int64_t position) {
  Limits limits;
  const int64_t right = window_right_of(problem);
  if (right >= 0) limits.high = position + right;
  if (problem.window_left >= 0) limits.low = position - problem.window_left;
  if (problem.chunk > 0) {
    const int64_t begin = chunk_begin(problem.chunk, position);
    limits.low = std::max(limits.low, begin);
    limits.high = std::min(limits.high, begin + problem.chunk - 1);
  }
  return limits;
}

}  // namespace

int64_t window_right_of(const Problem& problem) {
  return problem.causal ? 0 : problem.window_right;
}

bool has_window(const Problem& problem) {
  if (problem.window_left >= 0 || problem.chunk > 0) return true;
  if (!problem.causal && problem.window_right >= 0) return true;
  return problem.causal && problem.prefix > 0;
}

VisibleKeys visible_keys(const Problem& problem, int64_t seq_q, int64_t seq_k, int64_t row) {
  const Limits limits = limits_at(problem, row + seq_k - seq_q);
  VisibleKeys keys;
  keys.end = std::clamp<int64_t>(limits.high + 1, 0, seq_k);
  keys.always = std::max(std::min(problem.prefix, seq_k), std::min(problem.window_sinks, keys.end));
  keys.begin = std::max(limits.low, keys.always);
  keys.end = std::max(keys.begin, keys.end);
  if (keys.end == keys.begin) keys.begin = keys.end = keys.always;
  return keys;
}

VisibleKeys visible_key_tiles(const Problem& problem, int64_t seq_q, int64_t seq_k,
                              int64_t first_row, int64_t last_row, int64_t cols) {
  // Both ends of a row's keys never move back from a row to the next.
  const VisibleKeys first = visible_keys(problem, seq_q, seq_k, first_row);
  const VisibleKeys last = visible_keys(problem, seq_q, seq_k, last_row);
  VisibleKeys tiles;
  tiles.always = (last.always + cols - 1) / cols;
  tiles.begin = std::max(first.begin / cols, tiles.always);
  tiles.end = std::max((last.end + cols - 1) / cols, tiles.begin);
  if (tiles.end == tiles.begin) tiles.begin = tiles.end = tiles.always;
  return tiles;
}

SeeingRows seeing_rows(const Problem& problem, int64_t seq_q, int64_t seq_k, int64_t first_key,
                       int64_t end_key) {
  if (first_key < problem.prefix) return {0, seq_q};
  const int64_t right = window_right_of(problem), last_key = end_key - 1;
  int64_t first = -kFar, last = kFar;  // positions
  if (right >= 0) first = first_key - right;
  if (problem.chunk > 0) first = std::max(first, chunk_begin(problem.chunk, first_key));
  if (first_key >= problem.window_sinks) {
    if (problem.window_left >= 0) last = last_key + problem.window_left;
    if (problem.chunk > 0)
      last = std::min(last, chunk_begin(problem.chunk, last_key) + problem.chunk - 1);
  }
  const int64_t shift = seq_q - seq_k;  // from positions to rows
  SeeingRows rows;
  rows.begin = std::clamp<int64_t>(first + shift, 0, seq_q);
  rows.end = std::clamp<int64_t>(last + shift + 1, rows.begin, seq_q);
  return rows;
}

}  // namespace lssar
