// From problem + schedule + target to one self-contained CUDA source and its launch recipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// The rows a launch's blocks are cut from.
enum class GridRows {
  kQueries,  // seq_q rows of every (batch, head)
  kKeys,     // seq_k rows of every (batch, kv head)
  // Tiles of LaunchStep::packed_rows rows of every (batch, kv head), each with whole queries of all
  // heads that share keys: see packed_tiles.
  kPackedQueries,
};

// What a tensor map shows of a call.
enum class MapTensor {
  // [batch, heads, length, dim] with the call's strides: maps (dim, length, heads, batch) in the
  // problem's type.
  kQ,
  kK,
  kV,
  kO,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  kUnitKeys,  // the same of the workspace, fp16
  // (8, seq_q, head_dim / 8, batch * heads), float32: a box has eight columns after eight, each of
  // them all its rows.
  kGradQSum,
  kKeyNorms,      // (seq_k, batch * kv_heads), float32: a box has one row
  kRowConstants,  // (8, seq_q, batch * heads), float32: rows past a head's end are outside
};

// One tensor map of a kernel: what of, and the box that an instruction moves. What lies outside the
// tensor loads as zeros and is not stored.
struct MapSpec {
  MapTensor tensor = MapTensor::kQ;
  int box_rows = 0;  // along the length
  int box_cols = 0;
  // In 128-byte chunks of a row, which box_cols then must fit in; kGradQSum, kKeyNorms and
  // kRowConstants never are.
  bool swizzled = true;
  // kQ, kO: of the heads that share keys, box_rows rows as GridRows::kPackedQueries packs them:
  // maps (dim, heads / kv_heads, seq_q, kv_heads, batch).
  bool packed = false;

  bool operator==(const MapSpec&) const = default;
};

// One kernel launch: grid.x = ceil(rows / rows_per_block), rounded up to whole clusters, *
// heads-or-kv_heads * batch.
// A kernel takes one lssar_device::AttentionParams by value, or TmaParams where it has maps.
struct LaunchStep {
  std::string entry;  // the kernel's name in the source
  GridRows grid_rows = GridRows::kQueries;
  int rows_per_block = 0;
  int packed_rows = 0;  // GridRows::kPackedQueries: divides rows_per_block; else 0
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory

  std::vector<MapSpec> maps;  // at most kMaxTensorMaps, and kMaxKernelMaps over all steps
  // The kernel loops over the blocks above itself: at most blocks_per_sm of them per SM are
  // launched.
  bool is_persistent = false;
  int blocks_per_sm = 1;
  int cluster = 1;  // blocks, along x

  bool operator==(const LaunchStep&) const = default;
};

constexpr int kMaxKernelMaps = 32;

// Tiles of `rows` rows that the queries of `group` heads fill, those of a query side by side: each
// has as many whole queries as fit, or a part of one that does not.
inline int64_t packed_tiles(int64_t seq_q, int64_t group, int rows) {
  if (group < 1) return 0;  // no heads
  const int64_t whole = group > rows ? 1 : rows / group;
  return (seq_q + whole - 1) / whole * ((group + rows - 1) / rows);
}

// An emitted kernel: the source and how to launch it, in order.
struct KernelSource {
  std::string name;    // "lssar_forward_bf16_d64": of files and messages, not of a key
  std::string source;  // begins with the header comment
  std::vector<LaunchStep> steps;
};

// Byte-for-byte deterministic. Errors: those of validate(problem) and validate(schedule, ...).
Result<KernelSource> emit_kernel(const Problem& problem, const Schedule& schedule,
                                 const Target& target);

// The source without its header comment: what identity (cache key, duplicate candidates) is
// decided on.
std::string source_without_header(const std::string& source);

// Where a call's keys and queries lie among all: for passes that take a range of keys
// (is_of_range); the others do not look at it. Zeros: they are all there are.
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

// Where the workspace's parts lie: byte offsets, each 256-aligned, and the total. A part that the
// pass does not use has size 0.
struct WorkspaceLayout {
  size_t q_inv_norm = 0;
  size_t k_inv_norm = 0;
  size_t row_constants = 0;
  size_t grad_q_sum = 0;
  size_t dq_turns = 0;
  size_t unit_keys = 0;
  size_t tickets = 0;
  size_t total_bytes = 0;
};
// Floats between two slices of k_inv_norm.
inline int64_t key_norm_pitch(int64_t seq_k) { return (seq_k + 3) / 4 * 4; }
// kInvalidArgument where a size overflows.
Result<WorkspaceLayout> workspace_layout(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes);

// Bytes of what the forward for training saves (see AttentionParams); 0 = not needed.
struct SavedBytes {
  size_t o = 0, stats = 0, x = 0;
};
Result<SavedBytes> saved_bytes(const Problem& problem, const Schedule& schedule,
                               const Sizes& sizes);

// Whether kernels read the keys scaled to unit length (AttentionParams::unit_keys).
bool needs_unit_keys(const Problem& problem, const Schedule& schedule);

// Whether blocks of a persistent kernel take their work tiles from a counter
// (AttentionParams::tickets).
bool takes_tickets(const Problem& problem, const Schedule& schedule);

// Whether the backward needs epsilon, which else is 0: re-weighting with an offset.
bool needs_epsilon(const Problem& problem);
// Whether X is saved for it: summed up by the forward for training, read by the backward.
bool saves_x(const Problem& problem, const Schedule& schedule);
// Whether the pass is the forward for training, and sums up X.
bool sums_x(const Problem& problem, const Schedule& schedule);

// Whether kernels may take cheaper forms of softplus than the full one (HopperOptions::evaluator).
// Portable ones have that one only: their time goes into loads and products. Nor may gradients of
// p = 1 (and 0), where U^(p-1) jumps at U = 0: any error moves scores over that edge.
bool may_abridge_softplus(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
