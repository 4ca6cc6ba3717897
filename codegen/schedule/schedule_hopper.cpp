// Defaults of Variant::kHopper.
#include <algorithm>

#include "codegen/pass_needs.h"
#include "codegen/schedule/hopper_rules.h"
#include "codegen/schedule_rules.h"
#include "codegen/shapes.h"
#include "codegen/visible_keys.h"

namespace lssar {
namespace {

// As many stages as fit, up to `most`.
template <typename IsLegal>
void fill_stages(Tiling& tiling, int most, const IsLegal& is_legal) {
  tiling.stages = most;
  while (tiling.stages > kHopperMinStages && !is_legal()) --tiling.stages;
}

void choose_forward(Schedule& schedule, const Problem& problem, const Target& target) {
  HopperOptions& hopper = schedule.hopper;
  const int dim = std::max(problem.head_dim, problem.head_dim_v);
  const int limit = sums_x(problem, schedule) ? 128 : 256;
  const int chunks = (problem.head_dim_v + limit - 1) / limit;
  schedule.block_dv = (problem.head_dim_v / 8 + chunks - 1) / chunks * 8;
  const int accumulated = schedule.block_dv * (sums_x(problem, schedule) ? 2 : 1);
  schedule.forward.block_rows = 128;
  schedule.forward.block_cols = accumulated <= 64 ? 128 : accumulated <= 128 ? 96 : 48;
  // A single pass has little arithmetic per score. Wide tiles spread the cost of a tile, above all
  // that of its factor for o.
  if (fuses_scale(problem))
    schedule.forward.block_cols = accumulated > 128  ? 80
                                  : problem.causal   ? 128
                                  : accumulated > 64 ? 176
                                                     : 192;
  // Without X beside o there is room for more keys: stages have pass 1's size at d 128 anyway, and
  // at d 256 narrow tiles are bound by shared memory. None spills (ptxas 13.0).
  const bool is_alone = !is_general(problem) && !sums_x(problem, schedule);
  const bool is_widest = is_alone && std::min(problem.head_dim, problem.head_dim_v) > 192;
  // Measured on an H100 (d 64, no mask): 192 keys in both passes take 8 % less time than 160 and
  // 128. With a mask they spill.
  const bool is_narrow = is_alone && !problem.causal && dim <= 64;
  if (is_alone && accumulated <= 128) schedule.forward.block_cols = is_narrow ? 192 : 128;
  if (is_widest) schedule.forward.block_cols = 64;
  // Measured on an H100 and an H200 (d 128, no mask): 64 keys take 9 to 10 % less time than 48.
  // With a mask they spill.
  const bool is_plain = !is_general(problem) && !problem.causal && !has_window(problem);
  if (is_plain && !problem.varlen && sums_x(problem, schedule) && accumulated > 128 && dim <= 128)
    schedule.forward.block_cols = 64;
  hopper.persistent = !problem.varlen;
  hopper.store_path = StorePath::kTma;
  fit_store_path(schedule, problem);
  hopper.tickets = problem.causal && hopper.persistent;  // without a mask all tiles cost the same
  // Wide tiles, because each tile costs something beside its scores (docs/instruction_slots.md).
  // At larger dims registers limit them.
  hopper.score_cols = is_narrow ? 192 : dim <= 128 ? 160 : is_widest ? 96 : 64;
  // With 160 keys a soft cap or ALiBi spills, and ptxas 13.0 takes three times as long.
  if (changes_scores(problem)) hopper.score_cols = std::min(hopper.score_cols, 96);
  fill_stages(schedule.forward, kHopperMaxStages,
              [&] { return check_hopper_forward(kQuietly, schedule, problem, target).ok(); });
}

// Tiles with which no problem of these dims spills, or makes ptxas wait for each product (ptxas
// 13.0). Whether the outer loop is there moves a few registers too.
void choose_backward(Schedule& schedule, const Problem& problem, const Target& target) {
  HopperOptions& hopper = schedule.hopper;
  const bool sums = sums_dq(schedule);
  const int dims = problem.head_dim + problem.head_dim_v;
  hopper.ping_pong = !sums;
  hopper.persistent = !sums && dims <= 128 && !problem.varlen;
  // TMA adds whole rows, without an address and a test for each lane.
  if (schedule.dq_mode == DqMode::kAtomic && !problem.varlen) hopper.sum_path = StorePath::kTma;
  schedule.split_dkdv = dims > kHopperMaxCols;
  schedule.dkdv.block_rows = 128;
  const auto fits = [&] {
    return hopper_dkdv_shared_bytes(problem, schedule) + hopper_static_shared_bytes(problem) <=
           target.shared_bytes_per_block;
  };
  // Expressions need registers for phi' and more row constants; an exponential alone does not.
  const bool is_wide = !is_general(problem) || (exponential_of(problem) && !has_pass_one(problem));
  schedule.dkdv.block_cols = dims <= 128 ? 96 : dims <= kHopperMaxCols && is_wide ? 80 : 64;
  schedule.dkdv.stages = kHopperMinStages;
  if (sums) {
    schedule.dkdv.block_cols = 64;
  } else {
    while (schedule.dkdv.block_cols > 16 && !fits()) schedule.dkdv.block_cols -= 16;
  }
  fit_sum_path(schedule, problem, target);
  fill_stages(schedule.dkdv, 4, fits);
  if (!has_dq_tiles(schedule)) return;
  schedule.dq.block_rows = 128;
  schedule.dq.block_cols = dims <= 128 ? 96 : dims <= 256 ? 80 : dims <= 384 ? 48 : 32;
  fill_stages(schedule.dq, 4,
              [&] { return check_hopper_backward(kQuietly, schedule, problem, target).ok(); });
}

// Whether bytes can be counted in an int. The rules are checked later.
bool is_countable(const Schedule& schedule) {
  constexpr int kMost = 4096;
  int most = std::max(schedule.block_dv, schedule.hopper.score_cols), least = 0;
  for (const Tiling& tiling : {schedule.forward, schedule.dkdv, schedule.dq}) {
    most = std::max({most, tiling.block_rows, tiling.block_cols});
    least = std::min({least, tiling.block_rows, tiling.block_cols});
  }
  return most <= kMost && std::min({least, schedule.block_dv, schedule.hopper.score_cols}) >= 0;
}

}  // namespace

bool prefers_hopper(const Schedule& schedule, const Problem& problem, const Target& target) {
  // If it sums dq, tiles of more than 64 queries do not fit, or spill with more columns.
  const int dims = problem.head_dim + problem.head_dim_v;
  const bool spills = problem.pass == Pass::kBackward && sums_dq(schedule) && dims > kHopperMaxCols;
  return hopper_reason(problem, target).ok() && !spills;
}

void choose_hopper(Schedule& schedule, const Problem& problem, const Target& target) {
  schedule.variant = Variant::kHopper;
  if (problem.pass == Pass::kBackward) {
    choose_backward(schedule, problem, target);
  } else {
    choose_forward(schedule, problem, target);
  }
}

void fit_stages(Schedule& schedule, Tiling Schedule::*tiling, const Problem& problem,
                const Target& target) {
  const bool is_backward = problem.pass == Pass::kBackward;
  if (!is_countable(schedule)) return;
  if (is_backward == (tiling == &Schedule::forward)) return;  // not of this pass
  const auto bytes = [&] {
    return tiling == &Schedule::forward ? hopper_forward_shared_bytes(problem, schedule)
           : tiling == &Schedule::dkdv  ? hopper_dkdv_shared_bytes(problem, schedule)
                                        : hopper_dq_shared_bytes(problem, schedule);
  };
  const int most = target.shared_bytes_per_block - hopper_static_shared_bytes(problem);
  while ((schedule.*tiling).stages > kHopperMinStages && bytes() > most)
    --(schedule.*tiling).stages;
}

void fit_store_path(Schedule& schedule, const Problem& problem) {
  if (problem.pass == Pass::kBackward) return;
  if (!problem.varlen && check_hopper_store(kQuietly, schedule, problem).ok()) return;
  schedule.hopper.store_path = StorePath::kRegisters;
}

void fit_sum_path(Schedule& schedule, const Problem& problem, const Target& target) {
  if (!sums_by_tma(schedule) || problem.pass != Pass::kBackward) return;
  Schedule fewest = schedule;
  fewest.dkdv.stages = kHopperMinStages;
  if (hopper_dkdv_shared_bytes(problem, fewest) > target.shared_bytes_per_block)
    schedule.hopper.sum_path = StorePath::kRegisters;
}

void fit_stagger(Schedule& schedule, const Problem& problem, bool fits_cols, bool fits_stages) {
  if (problem.pass == Pass::kBackward || schedule.hopper.stagger == 1) return;
  // The scores of two tiles are in registers beside o.
  const int accumulated = schedule.block_dv * (sums_x(problem, schedule) ? 2 : 1);
  if (fits_cols)
    schedule.forward.block_cols = accumulated <= 64    ? 96
                                  : accumulated <= 128 ? 64
                                  : accumulated <= 192 ? 32
                                                       : 16;
  if (fits_stages) schedule.forward.stages = kHopperMaxStages;  // fit_stages removes the excess
}

void fit_tickets(Schedule& schedule, const Problem& problem) {
  if (problem.pass != Pass::kBackward && !check_hopper_tickets(kQuietly, schedule.hopper).ok())
    schedule.hopper.tickets = false;
}

}  // namespace lssar
