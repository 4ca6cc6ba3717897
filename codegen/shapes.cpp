#include "codegen/shapes.h"

#include <algorithm>

namespace lssar {
namespace {

constexpr int kRowPadBytes = 16;  // keeps the rows of a tile on different banks

int tile_bytes(const Problem& problem, int rows, int cols) {
  return rows * (cols * dtype_bytes(problem.dtype) + kRowPadBytes);
}

}  // namespace

int padded_dim(int dim) {
  constexpr int kDepth = 16;
  return (dim + kDepth - 1) / kDepth * kDepth;
}

int forward_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.forward;
  const int dim = padded_dim(problem.head_dim);
  const int stage = std::max(tile_bytes(problem, tiling.block_cols, dim),
                             tile_bytes(problem, tiling.block_cols, schedule.block_dv)) +
                    tiling.block_cols * 4;
  return tile_bytes(problem, tiling.block_rows, dim) + tiling.stages * stage;
}

int dkdv_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.dkdv;
  const int dim = padded_dim(problem.head_dim);
  const int dim_v = padded_dim(problem.head_dim_v);
  const int owned =
      tile_bytes(problem, tiling.block_rows, dim) + tile_bytes(problem, tiling.block_rows, dim_v);
  const int stage = tile_bytes(problem, tiling.block_cols, dim) +
                    tile_bytes(problem, tiling.block_cols, dim_v) +
                    tiling.block_cols * kRowConstantBytes;
  int total = owned + tiling.stages * stage;
  if (schedule.dq_mode == DqMode::kAtomic)
    total += tile_bytes(problem, tiling.block_rows, tiling.block_cols) +
             tiling.block_rows / kWarpRows * 4;
  return total;
}

int dq_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.dq;
  const int dim = padded_dim(problem.head_dim);
  const int dim_v = padded_dim(problem.head_dim_v);
  const int owned =
      tile_bytes(problem, tiling.block_rows, dim) + tile_bytes(problem, tiling.block_rows, dim_v);
  const int stage = tile_bytes(problem, tiling.block_cols, dim) +
                    tile_bytes(problem, tiling.block_cols, dim_v) + tiling.block_cols * 4;
  return owned + tiling.stages * stage;
}

}  // namespace lssar
