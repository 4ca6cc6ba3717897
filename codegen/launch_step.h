// The launch recipe of a kernel: its launches in order, what each block covers, and the tensor maps
// that each launch needs. Plain data. Threads: constants and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lssar {

// The rows that a launch divides among its blocks.
enum class GridRows {
  kQueries,  // seq_q rows of every (batch, head)
  kKeys,     // seq_k rows of every (batch, kv head)
  // Tiles of LaunchStep::packed_rows rows of every (batch, kv head). Each has whole queries of all
  // heads that share keys: see packed_tiles.
  kPackedQueries,
  kNewKeys,  // rows of k_new and v_new of every (sequence, kv head), for problems with varlen
  kHeads,    // one row for each head, for the whole batch
  kOnce,     // one block
};

// The tensor of a call that a tensor map describes.
enum class MapTensor {
  // [batch, heads, length, dim] with the call's strides. The map's dimensions are (dim, length,
  // heads, batch), in the problem's type.
  kQ,
  kK,
  kV,
  kO,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  // (8, seq_q, head_dim / 8, batch * heads), float32. A box has groups of eight columns one after
  // another, each with all rows of the box.
  kGradQSum,
  kKeyNorms,      // (seq_k, batch * kv_heads), float32: a box has one row
  kRowConstants,  // (8, seq_q, batch * heads), float32: rows past a head's end count as outside
};

// The rows that a launch turns by their rotary positions (Problem::rotary_dim).
enum class Rotation {
  kNone,
  kQ,  // of the call's tensor into the workspace, where the launches after it read them
  kK,
  kGradQ,  // in place, back to the directions of the call's q and k
  kGradK,
};

// One tensor map of a kernel: its tensor, and the box that an instruction moves. Elements outside
// the tensor are loaded as zeros and not stored.
struct MapSpec {
  MapTensor tensor = MapTensor::kQ;
  int box_rows = 0;  // along the length
  int box_cols = 0;
  // Stores a row in 128-byte chunks with a swizzle; box_cols must then fit into one chunk. Ignored
  // for kGradQSum, kKeyNorms and kRowConstants, which are never swizzled.
  bool swizzled = true;
  // For kQ and kO: the box_rows rows of a box are queries of all heads that share keys, packed as
  // in GridRows::kPackedQueries. The map's dimensions are (dim, heads / kv_heads, seq_q, kv_heads,
  // batch).
  bool packed = false;

  bool operator==(const MapSpec&) const = default;
};

// One kernel launch. grid.x = ceil(rows / rows_per_block), rounded up to whole clusters, *
// heads-or-kv_heads * batch. With GridRows::kHeads it is one block for each head. A kernel takes
// one lssar_device::AttentionParams by value, or TmaParams if it has maps. Kernels of sequences
// (Problem::varlen) take SequencesParams, or SequencesTmaParams if they have maps; for their grids
// see runtime/device_sequences.h. Kernels with a rotation take RotaryParams, or
// RotarySequencesParams.
struct LaunchStep {
  std::string entry;  // the kernel's name in the source
  GridRows grid_rows = GridRows::kQueries;
  int rows_per_block = 0;
  int packed_rows = 0;  // GridRows::kPackedQueries: divides rows_per_block; else 0
  Rotation rotation = Rotation::kNone;
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory
  // Only calls with least_rows to most_rows rows have this launch. The rows are the queries of all
  // heads that share keys: seq_q * heads / kv_heads. most_rows 0: no limit.
  int least_rows = 0;
  int most_rows = 0;

  std::vector<MapSpec> maps;  // at most kMaxTensorMaps, and kMaxKernelMaps over all steps
  // The kernel loops over its blocks. At most blocks_per_sm blocks are launched per SM.
  bool is_persistent = false;
  int blocks_per_sm = 1;
  int cluster = 1;  // blocks per cluster, along x

  bool operator==(const LaunchStep&) const = default;
};

constexpr int kMaxKernelMaps = 32;

// The launch that has fewer blocks in a call with kept norms (SequencesParams::key_norms).
inline constexpr char kKeyNormsEntry[] = "lssar_key_norms";

// Whether a call of `rows` rows has the launch.
inline bool is_launched(const LaunchStep& step, int64_t rows) {
  return rows >= step.least_rows && (step.most_rows == 0 || rows <= step.most_rows);
}

// The number of tiles of `rows` rows for the queries of `group` heads. The heads of a query are
// side by side. A tile has as many whole queries as fit, or a part of a query that does not fit.
inline int64_t packed_tiles(int64_t seq_q, int64_t group, int rows) {
  if (group < 1) return 0;  // no heads
  const int64_t whole = group > rows ? 1 : rows / group;
  return (seq_q + whole - 1) / whole * ((group + rows - 1) / rows);
}

}  // namespace lssar
