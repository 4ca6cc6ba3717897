// The launch recipe of a kernel: its launches in order, what each block covers, and the tensor maps
// that each launch needs. Plain data. Threads: constants and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lssar {

// The rows a launch's blocks are cut from.
enum class GridRows {
  kQueries,  // seq_q rows of every (batch, head)
  kKeys,     // seq_k rows of every (batch, kv head)
  // Tiles of LaunchStep::packed_rows rows of every (batch, kv head), each with whole queries of all
  // heads that share keys: see packed_tiles.
  kPackedQueries,
  kHeads,  // one row of every head, of all of the batch
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
  // (8, seq_q, head_dim / 8, batch * heads), float32: a box has eight columns after eight, each of
  // them all its rows.
  kGradQSum,
  kKeyNorms,      // (seq_k, batch * kv_heads), float32: a box has one row
  kRowConstants,  // (8, seq_q, batch * heads), float32: rows past a head's end are outside
};

// One tensor map of a kernel: its tensor, and the box that an instruction moves. What is outside
// the tensor loads as zeros and is not stored.
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
// heads-or-kv_heads * batch (GridRows::kHeads: one block of every head).
// A kernel takes one lssar_device::AttentionParams by value, or TmaParams where it has maps.
struct LaunchStep {
  std::string entry;  // the kernel's name in the source
  GridRows grid_rows = GridRows::kQueries;
  int rows_per_block = 0;
  int packed_rows = 0;  // GridRows::kPackedQueries: divides rows_per_block; else 0
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory

  std::vector<MapSpec> maps;  // at most kMaxTensorMaps, and kMaxKernelMaps over all steps
  // The kernel loops over its blocks: at most blocks_per_sm of them per SM are launched.
  bool is_persistent = false;
  int blocks_per_sm = 1;
  int cluster = 1;  // blocks, along x

  bool operator==(const LaunchStep&) const = default;
};

constexpr int kMaxKernelMaps = 32;

// Tiles of `rows` rows for the queries of `group` heads. The heads of a query are side by side. A
// tile has as many whole queries as fit, or a part of one that does not fit.
inline int64_t packed_tiles(int64_t seq_q, int64_t group, int rows) {
  if (group < 1) return 0;  // no heads
  const int64_t whole = group > rows ? 1 : rows / group;
  return (seq_q + whole - 1) / whole * ((group + rows - 1) / rows);
}

}  // namespace lssar
