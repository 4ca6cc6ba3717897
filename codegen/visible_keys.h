// Which keys a row sees: the meaning of `causal` and of a problem's window fields. The reference,
// the cost model and the counts of work use it. For kernels templates/tile/window.cuh has the same
// on GPUs, and templates/cpu/window.h on CPUs.
//
// Row i of seq_q queries stands at position pos = i + seq_k - seq_q, which may be below 0. Key j is
// visible where
//   j < prefix, or
//   j <= hi and (j < window_sinks or j >= lo)
// with, as far as these limits are set,
//   hi = min(pos + window_right, pos if causal, the last position of pos's chunk)
//   lo = max(pos - window_left, the first position of pos's chunk)
// Chunks are [n chunk, n chunk + chunk) for whole n, also below 0.
//
// So all rows see the prefix, and later chunks see the sinks, but rows in front of a sink do not.
// The rule holds for positions below 0 too. Such rows see the prefix, and what window_right
// reaches. If nothing limits the keys after them, they see all keys.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "codegen/problem.h"

namespace lssar {

// Two runs of keys: those below `always`, and those from `begin` to `end` - 1.
// 0 <= always <= begin <= end.
struct VisibleKeys {
  int64_t always = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return always + (end - begin); }
  // The n-th of them, from 0.
  int64_t key(int64_t n) const { return n < always ? n : n - always + begin; }
  bool has(int64_t key) const { return key < always || (key >= begin && key < end); }

  bool operator==(const VisibleKeys&) const = default;
};

// Whether a window, a prefix or chunks change which keys some row sees, beside `causal`.
bool has_window(const Problem& problem);

// How many keys after its position a row may see; -1: all. `causal` allows none.
int64_t window_right_of(const Problem& problem);

// The keys of row `row`, from 0 to seq_q - 1.
VisibleKeys visible_keys(const Problem& problem, int64_t seq_q, int64_t seq_k, int64_t row);

// The tiles of `cols` keys that some row of [first_row, last_row] sees a key of: those below
// `always`, and those from `begin` to `end` - 1.
VisibleKeys visible_key_tiles(const Problem& problem, int64_t seq_q, int64_t seq_k,
                              int64_t first_row, int64_t last_row, int64_t cols);

// The rows that see a key of [first_key, end_key), which are neighbours: [begin, end).
struct SeeingRows {
  int64_t begin = 0;
  int64_t end = 0;
};
// REQUIRES: 0 <= first_key < end_key <= seq_k.
SeeingRows seeing_rows(const Problem& problem, int64_t seq_q, int64_t seq_k, int64_t first_key,
                       int64_t end_key);

}  // namespace lssar
