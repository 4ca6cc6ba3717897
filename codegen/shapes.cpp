#include "codegen/shapes.h"

#include <algorithm>

#include "codegen/pass_needs.h"

namespace lssar {

int hopper_launch_registers(const Tiling& tiling) {
  constexpr int kMostPerThread = 255;
  const int share = kRegistersPerSm / (hopper_threads(tiling) * std::max(tiling.min_blocks, 1));
  return std::min(share, kMostPerThread) / 8 * 8;
}

RegisterSplit hopper_registers(const HopperOptions& hopper, const Tiling& tiling, int cluster,
                               bool has_sequences) {
  if (hopper.consumer_registers != 0) return {hopper.producer_registers, hopper.consumer_registers};
  constexpr int kMost = 240;
  const int consumers = tiling.block_rows / kWarpGroupRows;
  const int launched = hopper_launch_registers(tiling);
  const int producer = consumers > 2 || cluster > 1 || has_sequences ? 32 : 24;
  const int pool = launched * hopper_threads(tiling) - producer * kWarpGroupThreads;
  const int consumer = std::min(pool / (kWarpGroupThreads * std::max(consumers, 1)) / 8 * 8, kMost);
  if (launched < producer || consumer <= launched) return {};
  return {producer, consumer};
}

int hopper_score_cols(const Problem& problem, const Schedule& schedule) {
  const bool is_own = schedule.hopper.stagger == 1 && has_pass_one(problem);
  return is_own ? schedule.hopper.score_cols : schedule.forward.block_cols;
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

}  // namespace lssar
