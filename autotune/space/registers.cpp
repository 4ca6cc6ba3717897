#include "autotune/space/registers.h"

#include <algorithm>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// A fragment of 16 rows and these columns takes half as many registers of each of the 32 threads.
constexpr int fragment(int cols) { return cols / 2; }

// Accumulators of each pass, and queries in registers.
struct ForwardNeed {
  int summing = 0, weighing = 0;
};

ForwardNeed forward_need(const Problem& problem, const Schedule& schedule) {
  const HopperOptions& hopper = schedule.hopper;
  const bool is_hopper = schedule.variant == Variant::kHopper;
  const bool has_x = sums_x(problem, schedule);
  // Hopper: the last tile's rounded weights are multiplied while the next scores are in flight.
  const int operands = is_hopper && hopper.weights_from == WeightsFrom::kRegisters
                           ? schedule.forward.block_cols / 4 * (has_x ? 2 : 1)
                           : 0;
  const int queries = is_hopper && hopper.queries_in_registers ? problem.head_dim / 4 : 0;
  if (problem.pass == Pass::kRowSums) return {0, fragment(schedule.forward.block_cols)};
  const int output = fragment(schedule.block_dv) * (has_x ? 2 : 1);
  const int weighing = fragment(schedule.forward.block_cols) + operands + output;
  // Pass 1 adds up a tile's scores while the next ones are in flight.
  const int tiles = is_hopper && hopper.overlap ? 2 : 1;
  const bool is_staggered = hopper.stagger > 1;
  const int score_cols = hopper_score_cols(problem, schedule);
  if (is_hopper && is_staggered) return {0, queries + weighing + fragment(score_cols)};
  const int summing = is_hopper && has_pass_one(problem) ? tiles * fragment(score_cols) : 0;
  return {queries + summing, queries + weighing};
}

}  // namespace

int thread_registers(const Schedule& schedule, const Tiling& tiling, const Target& target) {
  if (schedule.variant == Variant::kHopper) {
    const RegisterSplit split = hopper_registers(schedule.hopper, tiling, schedule.hopper.cluster);
    return split.consumer != 0 ? split.consumer : hopper_launch_registers(tiling);
  }
  const int threads = tiling_threads(tiling) * std::max(tiling.min_blocks, 1);
  return std::min(target.registers_per_sm / threads / 8 * 8, target.registers_per_thread);
}

int forward_accumulators(const Problem& problem, const Schedule& schedule) {
  const ForwardNeed need = forward_need(problem, schedule);
  return std::max(need.summing, need.weighing);
}

int hopper_forward_others(const Problem& problem, const Schedule& schedule) {
  if (is_general(problem)) return kHopperGeneralOthers;
  constexpr int kWeighing = 56, kUnmaskedTraining = 48, kMasked = 56, kUnmasked = 44;
  const ForwardNeed need = forward_need(problem, schedule);
  const bool is_unmasked_training = sums_x(problem, schedule) && !problem.causal;
  const int weighing = need.weighing + (is_unmasked_training ? kUnmaskedTraining : kWeighing);
  const int summing = need.summing + (problem.causal ? kMasked : kUnmasked);
  return std::max(summing, weighing) - std::max(need.summing, need.weighing);
}

int dkdv_accumulators(const Problem& problem, const Schedule& schedule) {
  const int dk = fragment(problem.head_dim), dv = fragment(problem.head_dim_v);
  const int scores = fragment(schedule.dkdv.block_cols);
  const int most =
      schedule.split_dkdv ? std::max(dk + 2 * scores, dv + scores) : dk + dv + 2 * scores;
  if (schedule.variant != Variant::kHopper || schedule.dq_mode == DqMode::kSplit) return most;
  // A consumer's columns of dq, while the rounded gradients of the scores are multiplied.
  const int dq = fragment(hopper_query_grad_cols(problem, schedule));
  return std::max(most, dk + (schedule.split_dkdv ? 0 : dv) + dq + scores / 2);
}

int epsilon_accumulators(const Schedule& schedule) { return 2 * fragment(schedule.dq.block_cols); }

int dq_accumulators(const Problem& problem, const Schedule& schedule) {
  const int cols = schedule.dq.block_cols;
  // The next tile's scores are in flight while this tile's rounded scores are multiplied.
  const int rounded =
      schedule.variant == Variant::kHopper && schedule.hopper.overlap ? cols / 4 : 0;
  return fragment(problem.head_dim) + 2 * fragment(cols) + rounded;
}

}  // namespace lssar
