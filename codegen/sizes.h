// The sizes of one call, and the bytes that follow from them: workspace and saved tensors.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// Where a call's keys and queries lie among all, for passes that take a range of keys
// (is_of_range). Other passes ignore it. Zeros: the call has all of them.
struct KeyRange {
  int64_t first_key = 0;
  int64_t num_keys = 0;  // all of them; 0: first_key + seq_k
  int64_t first_query = 0;
  int64_t num_queries = 0;  // all of them; 0: first_query + seq_q

  bool operator==(const KeyRange&) const = default;
};

// The actual sizes of one call. A length the problem fixes must equal the problem's.
struct Sizes {
  int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0;
  KeyRange range = {};

  bool operator==(const Sizes&) const = default;
};
// Without the range.
nlohmann::json to_json(const Sizes& sizes);

// Rounds the bytes of a part of the workspace up, so that the next part is aligned to 256 bytes.
constexpr size_t aligned_part(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Byte offsets of the workspace's parts, each 256-aligned, and the total. A part that the pass does
// not use has size 0.
struct WorkspaceLayout {
  static constexpr int kNumParts = 9;
  size_t q_inv_norm = 0;
  size_t k_inv_norm = 0;
  size_t row_constants = 0;
  size_t grad_q_sum = 0;
  size_t dq_turns = 0;
  size_t tickets = 0;
  size_t sink_terms = 0;
  size_t rotated_q = 0;  // contiguous, like q and k
  size_t rotated_k = 0;
  size_t total_bytes = 0;
  bool turns_tiles = false;  // schedule.h: there are no rotated_q and rotated_k
  // CPU: for how many (batch, kv head) packed keys fit in the place of k_inv_norm. 0 on GPUs.
  int64_t panel_slices = 0;
};
// Floats between two slices of k_inv_norm.
inline int64_t key_norm_pitch(int64_t seq_k) { return (seq_k + 3) / 4 * 4; }
// kInvalidArgument where a size overflows.
Result<WorkspaceLayout> workspace_layout(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes);

// Bytes of what the forward for training saves (see AttentionParams), 0 = not needed, and of what a
// weighted sum writes in place of o.
struct SavedBytes {
  size_t o = 0, stats = 0, x = 0;
  size_t partial_o = 0;
};
Result<SavedBytes> saved_bytes(const Problem& problem, const Schedule& schedule,
                               const Sizes& sizes);

}  // namespace lssar
