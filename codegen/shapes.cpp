#include "codegen/shapes.h"

#include <algorithm>

#include "codegen/kernel.h"

namespace lssar {
namespace {

constexpr int kRowPadBytes = 16;  // keeps the rows of a tile on different banks

int tile_bytes(const Problem& problem, int rows, int cols) {
  return rows * (cols * dtype_bytes(problem.dtype) + kRowPadBytes);
}

// A SwizzledTile: whole chunks of 64 16-bit columns.
int swizzled_bytes(int rows, int cols) { return rows * 128 * ((cols + 63) / 64); }

constexpr int kBarrierBytes = 8;
constexpr int kTicketBytes = 4;       // of tile/dq_turns.cuh
constexpr int kTicketSlotBytes = 16;  // of templates/kernels/hopper_forward_producer.cuh
// Of a ring of slots, and of the pair that guards what a block owns.
int ring_bytes(int slots) { return 2 * (slots + 1) * kBarrierBytes; }
// Reciprocal norms of a tile's keys, as a TMA box is aligned.
int norm_bytes(int keys) { return (keys * 4 + 127) / 128 * 128; }

// What a block's parts of dq go through: float32, in whole boxes of columns.
int hopper_staging_bytes(const Problem& problem, const Schedule& schedule) {
  const int cols = hopper_sum_cols(problem, schedule);
  const int boxes = (hopper_query_grad_cols(problem, schedule) + cols - 1) / cols;
  return schedule.dkdv.block_rows * boxes * cols * 4;
}

}  // namespace

int hopper_launch_registers(const Tiling& tiling) {
  constexpr int kRegistersPerSm = 65536, kMostPerThread = 255;
  const int share = kRegistersPerSm / (hopper_threads(tiling) * std::max(tiling.min_blocks, 1));
  return std::min(share, kMostPerThread) / 8 * 8;
}

RegisterSplit hopper_registers(const HopperOptions& hopper, const Tiling& tiling, int cluster) {
  if (hopper.consumer_registers != 0) return {hopper.producer_registers, hopper.consumer_registers};
  constexpr int kGroup = 128, kMost = 240;
  const int consumers = tiling.block_rows / 64;
  const int launched = hopper_launch_registers(tiling);
  const int producer = consumers > 2 || cluster > 1 ? 32 : 24;
  const int pool = launched * hopper_threads(tiling) - producer * kGroup;
  const int consumer = std::min(pool / (kGroup * std::max(consumers, 1)) / 8 * 8, kMost);
  if (launched < producer || consumer <= launched) return {};
  return {producer, consumer};
}

int hopper_score_cols(const Schedule& schedule) {
  return schedule.hopper.stagger > 1 ? schedule.forward.block_cols : schedule.hopper.score_cols;
}

int hopper_forward_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.forward;
  const int keys = std::max(tiling.block_cols, hopper_score_cols(schedule));
  const int slot = std::max(swizzled_bytes(keys, problem.head_dim),
                            swizzled_bytes(tiling.block_cols, schedule.block_dv));
  const int norms = schedule.hopper.norm_form == NormForm::kOperands ? 0 : norm_bytes(keys);
  const bool has_x = problem.pass == Pass::kForwardTrain && needs_x(problem);
  const int weights = schedule.hopper.weights_from == WeightsFrom::kShared
                          ? swizzled_bytes(tiling.block_rows, tiling.block_cols) * (has_x ? 2 : 1)
                          : 0;
  const int query_tiles = schedule.hopper.stagger > 1 ? 2 : 1;
  return query_tiles * swizzled_bytes(tiling.block_rows, problem.head_dim) + weights +
         tiling.stages * (slot + norms) + ring_bytes(tiling.stages + query_tiles - 1) +
         (takes_tickets(problem, schedule) ? kTicketSlotBytes : 0);
}

int hopper_dkdv_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.dkdv;
  const int owned = swizzled_bytes(tiling.block_rows, problem.head_dim) +
                    swizzled_bytes(tiling.block_rows, problem.head_dim_v);
  const int scores =
      sums_dq(schedule) ? 2 * swizzled_bytes(tiling.block_rows, tiling.block_cols) : 0;
  const int slot = swizzled_bytes(tiling.block_cols, problem.head_dim) +
                   swizzled_bytes(tiling.block_cols, problem.head_dim_v) +
                   tiling.block_cols * kRowConstantBytes;
  const int staging = sums_by_tma(schedule) ? hopper_staging_bytes(problem, schedule) : 0;
  const int words = tiling.block_rows / kWarpRows * 4;
  const int ticket = schedule.dq_mode == DqMode::kOrdered ? 2 * kTicketBytes : 0;
  return owned + scores + staging + tiling.stages * slot + words + ring_bytes(tiling.stages) +
         ticket;
}

int hopper_dq_shared_bytes(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.dq;
  const int owned = swizzled_bytes(tiling.block_rows, problem.head_dim) +
                    swizzled_bytes(tiling.block_rows, problem.head_dim_v);
  const int slot = swizzled_bytes(tiling.block_cols, problem.head_dim) +
                   swizzled_bytes(tiling.block_cols, problem.head_dim_v) +
                   norm_bytes(tiling.block_cols);
  return owned + tiling.stages * slot + ring_bytes(tiling.stages);
}

int hopper_query_grad_cols(const Problem& problem, const Schedule& schedule) {
  if (schedule.dkdv.block_rows == 64) return problem.head_dim;
  const int chunks = (problem.head_dim + 63) / 64;
  return chunks == 1 ? (problem.head_dim / 2 + 7) / 8 * 8 : (chunks + 1) / 2 * 64;
}

int hopper_sum_cols(const Problem& problem, const Schedule& schedule) {
  return problem.head_dim <= 64 ? hopper_query_grad_cols(problem, schedule) : 64;
}

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
  if (sums_dq(schedule))
    total += tile_bytes(problem, tiling.block_rows, tiling.block_cols) +
             tiling.block_rows / kWarpRows * 4 + kTicketBytes;
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
