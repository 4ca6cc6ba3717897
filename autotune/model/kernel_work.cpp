#include "autotune/model/kernel_work.h"

#include <algorithm>
#include <cmath>

#include "autotune/model/general_loops.h"
#include "autotune/model/loop_work.h"
#include "autotune/space/registers.h"
#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "codegen/sizes.h"

namespace lssar {
namespace {

// ---- figures of docs/instruction_slots.md, read from machine code.
constexpr double kTableMultiplications = 5;  // base includes those of p = 15
constexpr int kTableDegree = 4;              // and this polynomial degree
constexpr LoopSlots kSumScores = {7.3, 45, 0.125};
constexpr LoopSlots kWeighScores = {15.9, 79, 0.1};
constexpr double kBriefSaves = 5.0, kLinearSaves = 8.0;
constexpr double kRowSumSlots = 1;  // Hopper's forward, not for training: additions of the row sums
// In the backward, and what choosing the form costs the dk/dv kernel per tile.
constexpr double kGradBriefSaves = 4.0, kGradLinearSaves = 7.1, kChoiceSlots = 16;
constexpr LoopSlots kDkdv = {21.4, 46, 0.19};
constexpr LoopSlots kDkdvAtomic = {25.25, 49, 0.35};  // with sums of dq
constexpr LoopSlots kDkdvOrdered = {25.9, 105, 0.75};
constexpr LoopSlots kDq = {19, 107, 0.03};
constexpr LoopSlots kEpsilon = {16, 85, 0};
// fp16 needs more: dS' has a scale, and dk/dv's weights a range. If the scale is found ahead, only
// the range remains.
constexpr double kDkdvScaleSlots = 3.6, kDkdvRangeSlots = 1.1, kDqScaleSlots = 2.2;
// In the dk/dv kernel if it is not found ahead: a row constant that is loaded separately, except
// for the linear form.
constexpr double kConstantSlots = 0.5;
// Weights through shared memory: the stores; each weight is written and read as rows, at 2 bytes.
constexpr double kWeightSlots = 0.3, kWeightBytes = 4;
constexpr double kSkipSlots = 1;  // skip_tiles: a comparison, even if nothing is skipped
// u^(p-1) beside u^p and its rounding (for X), in Hopper's forward and the portable one.
constexpr double kSlopeSlots = 2.3, kPortableSlopeSlots = 5;

// Row constants: a pass over shared memory gives a warp one word for 64 scores.
constexpr double kConstantBytes = 2;
constexpr double kNumConstants = 6, kNumGeneralConstants = 8;

// `power` is p, or p - 1 for the gradient.
LoopSlots with_power(const WorkContext& c, LoopSlots slots, int power, double polynomial_share) {
  slots.base += c.figures.multiplications(power) - kTableMultiplications;
  slots.base += polynomial_share * (c.schedule.softplus_degree - kTableDegree);
  return slots;
}

// The slots of a backward loop whose rows take each form of softplus in their shares.
LoopSlots with_forms(const WorkContext& c, LoopSlots slots, int power) {
  const EvaluatorMix mix = c.figures.evaluator_mix(c.schedule);
  slots = with_power(c, slots, power, mix.full);
  slots.base -= mix.brief * kGradBriefSaves + mix.linear * kGradLinearSaves;
  return slots;
}

// The slices that a forward's blocks are cut from, with heads packed or not; and the blocks of
// `rows` query rows in one slice.
double forward_slices(const WorkContext& c) {
  return c.schedule.pack_gqa ? c.kv_slices() : c.slices();
}
TileCount forward_tiles(const WorkContext& c, int rows, int cols) {
  if (!c.schedule.pack_gqa) return c.figures.query_tiles(rows, cols);
  return c.figures.packed_query_tiles(c.is_hopper() ? kWarpGroupRows : rows, rows, cols);
}

// Both passes overlap, except for pass 1 of a chain's first query tile and pass 2 of its last. A
// block takes chains.
void stagger(const WorkContext& c, KernelWork& work) {
  const int length = c.schedule.hopper.stagger;
  const Tiling& tiling = c.schedule.forward;
  Phase sum = work.phases[0], weigh = work.phases[1], both = weigh;
  const double apart = 1.0 / length;
  for (size_t i = 0; i < both.amount.size(); ++i) {
    if (i != static_cast<size_t>(Resource::kL2)) both.amount[i] += sum.amount[i];
    both.amount[i] *= 1 - apart;
    sum.amount[i] *= apart;
    weigh.amount[i] *= apart;
  }
  both.operand_bytes = (both.operand_bytes + sum.operand_bytes) * (1 - apart);
  sum.operand_bytes *= apart;
  weigh.operand_bytes *= apart;
  both.tiles *= 1 - apart;
  sum.tiles *= apart;
  weigh.tiles *= apart;
  work.phases = {sum, weigh, both};
  // The mean over the query tiles of a chain.
  const TileCount chains = forward_tiles(c, tiling.block_rows * length, tiling.block_cols);
  const double queries = tiling.block_rows * forward_slices(c) / std::max(c.slices(), 1.0);
  const double within = c.problem.causal ? 0.5 * (length - 1) * queries / tiling.block_cols : 0;
  work.blocks = chains.blocks * work.slices;
  work.longest = std::max(chains.longest - within, 0.5 * chains.longest);
  work.shortest = std::max(chains.shortest - within, 0.5 * chains.shortest);
}

// Bytes of global memory that a forward reads and writes, each once.
double forward_bytes(const WorkContext& c) {
  constexpr double kStatBytes = 4;  // a plane of the row statistics
  const double rows = c.slices() * c.seq_q(), keys = c.kv_slices() * c.seen_keys();
  const double q = c.d() * c.element(), o = c.dv() * c.element(), partial_o = 4 * c.dv();
  switch (c.problem.pass) {
    case Pass::kRowSums:
      return rows * (q + 2 * kStatBytes) + keys * q;
    case Pass::kWeightedSum:
      return rows * (q + partial_o + 4 * kStatBytes) + keys * (q + o);
    default:
      break;
  }
  const double saved_o = saves_o(c.problem) ? 2 * c.dv() : 0;
  const double saved = c.problem.pass == Pass::kForwardTrain ? saved_o + 4 * kStatBytes : 0;
  return rows * (q + o + saved + (c.has_x() ? 2 * c.dv() : 0)) + keys * (q + o);
}

std::string_view forward_entry(Pass pass) {
  return pass == Pass::kRowSums       ? "lssar_row_sums"
         : pass == Pass::kWeightedSum ? "lssar_weighted_sum"
                                      : "lssar_forward";
}

void take(const GeneralLoop& loop, PerScore& per) {
  per.slots = loop.slots;
  per.special = loop.special;
}

// Slots and special functions of both passes.
void count_forward(const WorkContext& c, PerScore& sum, PerScore& weigh) {
  const EvaluatorMix mix = c.figures.evaluator_mix(c.schedule);
  sum.special = 1;
  sum.slots = kSumScores;
  weigh.special = 1 - mix.linear;
  weigh.slots = with_power(c, kWeighScores, c.problem.p, mix.full);
  weigh.slots.base -= mix.brief * kBriefSaves + mix.linear * kLinearSaves;
  const bool is_hopper = c.schedule.variant == Variant::kHopper;
  if (is_hopper && c.problem.pass == Pass::kForward) weigh.slots.base += kRowSumSlots;
  if (c.has_x()) weigh.slots.base += is_hopper ? kSlopeSlots : kPortableSlopeSlots;
  if (!is_general(c.problem)) return;
  if (has_pass_one(c.problem)) take(general_sum_loop(c), sum);
  take(general_weigh_loop(c), weigh);
}

KernelWork forward_work(const WorkContext& c) {
  const Schedule& s = c.schedule;
  const HopperOptions& hopper = s.hopper;
  const bool in_registers = !c.is_hopper() || hopper.queries_in_registers;
  const int sum_cols = c.is_hopper() ? hopper_score_cols(c.problem, s) : s.forward.block_cols;
  const TileCount sums = forward_tiles(c, s.forward.block_rows, sum_cols);
  const TileCount weights = forward_tiles(c, s.forward.block_rows, s.forward.block_cols);
  const double slices = forward_slices(c);
  const double chunks = std::ceil(c.dv() / s.block_dv);

  PerScore sum;
  (in_registers ? sum.register_products : sum.rows_products) = c.d();
  sum.loaded = c.d();

  PerScore weigh;
  (in_registers ? weigh.register_products : weigh.rows_products) = c.d();
  weigh.register_products += s.block_dv * (c.has_x() ? 2 : 1);
  count_forward(c, sum, weigh);
  if (s.skip_tiles) weigh.slots.base += kSkipSlots;
  if (c.is_hopper() && hopper.weights_from == WeightsFrom::kShared) {
    weigh.slots.base += kWeightSlots;
    weigh.shared = kWeightBytes * (c.has_x() ? 2 : 1);
  }
  weigh.loaded = c.d() + s.block_dv;

  KernelWork work;
  work.phases = {
      make_phase(c, sum, s.forward, sum_cols, sums.tiles * slices),
      make_phase(c, weigh, s.forward, s.forward.block_cols, weights.tiles * slices * chunks)};
  work.phases[0].depth = s.forward.stages - 1;
  work.phases[1].depth = (s.forward.stages - 1) / 2.0;  // one slot for keys, another for values
  set_blocks(weights, slices, work);
  if (c.is_hopper() && hopper.stagger > 1) stagger(c, work);
  work.is_persistent = c.is_hopper() && hopper.persistent;
  work.is_dealt = work.is_persistent && !hopper.tickets;
  work.is_sorted = c.is_hopper();
  const int shared = c.is_hopper() ? hopper_forward_shared_bytes(c.problem, s)
                                   : forward_shared_bytes(c.problem, s);
  set_occupancy(c, s.forward, shared,
                {forward_accumulators(c.problem, s), hopper_forward_others(c.problem, s)},
                c.is_hopper() && hopper.overlap, work);
  if (c.is_hopper()) {
    for (Phase& phase : work.phases)
      phase.amount[static_cast<size_t>(Resource::kL2)] /= hopper.cluster;
    work.hidden = std::max(0.0, work.hidden - c.gpu.constants.cluster_wait * (hopper.cluster - 1));
    if (hopper.store_path == StorePath::kTma) work.block_clocks *= c.gpu.constants.store_share;
    work.block_clocks *= hopper.stagger;  // each query tile of a chain begins and ends
  }
  if (c.problem.pass == Pass::kRowSums) work.phases.pop_back();
  if (!has_pass_one(c.problem)) work.phases = {work.phases.back()};
  work.phases.back().amount[static_cast<size_t>(Resource::kDram)] = forward_bytes(c);
  return work;
}

// One of the two large launches of few queries: `entry` is lssar_decode_scores or
// lssar_decode_values. Loads bound it. The second one is assumed to read all values.
KernelWork decode_work(const WorkContext& c, const char* entry) {
  constexpr double kScoreBytes = 4;
  const Schedule& s = c.schedule;
  const bool is_of_scores = std::string_view(entry) == "lssar_decode_scores";
  const TileCount whole = forward_tiles(c, s.forward.block_rows, s.forward.block_cols);
  PerScore sum, weigh, per;
  count_forward(c, sum, weigh);
  per = is_of_scores && has_pass_one(c.problem) ? sum : weigh;
  per.register_products = is_of_scores ? c.d() : c.dv();
  per.loaded = is_of_scores ? c.d() : c.dv();
  KernelWork work;
  work.entry = entry;
  work.phases = {make_phase(c, per, s.forward, s.forward.block_cols, whole.tiles * c.kv_slices())};
  work.phases[0].depth = s.forward.stages - 1;
  const double chunks = std::max(std::ceil(c.seq_k() / s.split_keys), 1.0);
  set_blocks(whole, c.kv_slices(), work);
  work.blocks = chunks * c.kv_slices();
  work.longest = work.shortest = std::max(whole.tiles / chunks, 1.0);
  set_occupancy(
      c, s.forward,
      is_of_scores ? forward_shared_bytes(c.problem, s) : decode_values_shared_bytes(c.problem, s),
      {forward_accumulators(c.problem, s), 0}, false, work);
  const double rows = c.slices() * c.seq_q();
  work.phases[0].amount[static_cast<size_t>(Resource::kDram)] =
      c.kv_slices() * c.seen_keys() * per.loaded * c.element() +
      rows * c.seen_keys() * kScoreBytes + rows * chunks * c.dv() * (is_of_scores ? 0 : 4);
  return work;
}

KernelWork dkdv_work(const WorkContext& c) {
  const Schedule& s = c.schedule;
  const bool has_sums = sums_dq(s);
  const TileCount count = c.figures.key_tiles(s.dkdv.block_rows, s.dkdv.block_cols);
  const double num_tiles = count.tiles * c.slices();  // of every head that reads the keys
  const int power = c.problem.p - 1;

  PerScore both;
  both.rows_products = c.d() + c.dv();
  both.register_products = c.d() + c.dv();
  both.special = 2;
  const bool is_own = !is_general(c.problem);
  const LoopSlots slots = s.dq_mode == DqMode::kOrdered ? kDkdvOrdered
                          : has_sums                    ? kDkdvAtomic
                                                        : kDkdv;
  both.slots = with_forms(c, slots, power);
  if (may_abridge_softplus(c.problem, s) && s.hopper.evaluator != Evaluator::kFull)
    both.slots.tile += kChoiceSlots;
  const bool is_fp16 = c.problem.dtype == DType::kFp16;
  const bool scales_ahead = is_fp16 && c.is_hopper() && !has_sums;
  if (is_fp16) both.slots.base += scales_ahead ? kDkdvRangeSlots : kDkdvScaleSlots;
  if (c.is_hopper() && !scales_ahead)
    both.slots.base += kConstantSlots * (1 - c.figures.evaluator_mix(s).linear);
  if (!is_own) {
    const LoopSlots of_sums = {slots.base - kDkdv.base, slots.tile - kDkdv.tile,
                               slots.tile_dim - kDkdv.tile_dim};
    take(general_dkdv_loop(c, true), both);
    both.slots.base += of_sums.base + (is_fp16 ? kDkdvScaleSlots : 0);
    both.slots.tile += of_sums.tile;
    both.slots.tile_dim += of_sums.tile_dim;
  }
  both.loaded = c.d() + c.dv();
  both.shared = kConstantBytes * (is_own ? kNumConstants : kNumGeneralConstants);
  if (has_sums) {
    both.rows_products += c.d();
    // dS' is stored for the products of dq; parts of dq go through shared memory and out of it.
    both.shared += c.element();
    if (sums_by_tma(s)) both.shared += 2 * 4 * c.d() / s.dkdv.block_rows;
  }

  KernelWork work;
  if (s.split_dkdv) {
    // dv: scores and weights. dk: everything except dv's product.
    PerScore values;
    values.rows_products = c.d();
    values.register_products = c.dv();
    values.special = 1 - c.figures.evaluator_mix(s).linear;
    values.slots = with_forms(c, kWeighScores, c.problem.p);
    if (!is_own) take(general_dkdv_loop(c, false), values);
    values.shared = both.shared;
    values.loaded = c.d() + c.dv();
    work.phases.push_back(make_phase(c, values, s.dkdv, s.dkdv.block_cols, num_tiles));
    both.register_products -= c.dv();
  }
  work.phases.push_back(make_phase(c, both, s.dkdv, s.dkdv.block_cols, num_tiles));
  if (has_sums) {
    constexpr double kSumBytes = 4;
    work.phases.back().amount[static_cast<size_t>(Resource::kL2)] +=
        num_tiles * s.dkdv.block_cols * c.d() * kSumBytes * c.gpu.constants.sum_cost;
  }
  for (Phase& phase : work.phases) phase.depth = s.dkdv.stages - 1;
  set_blocks(count, c.kv_slices(), work);
  work.is_persistent = work.is_dealt = c.is_hopper() && s.hopper.persistent;
  work.is_sorted = c.is_hopper();
  set_occupancy(
      c, s.dkdv,
      c.is_hopper() ? hopper_dkdv_shared_bytes(c.problem, s) : dkdv_shared_bytes(c.problem, s),
      {dkdv_accumulators(c.problem, s), kHopperDkdvOthers}, false, work);
  if (s.dq_mode == DqMode::kOrdered)
    work.turn_clocks = c.gpu.constants.ordered_clocks / work.blocks_per_sm;
  work.phases.back().amount[static_cast<size_t>(Resource::kDram)] =
      c.slices() * c.seq_q() *
          ((c.d() + c.dv()) * c.element() + kRowConstantBytes + (has_sums ? 8 * c.d() : 0)) +
      c.kv_slices() * (c.seq_k() + c.seen_keys()) * (c.d() + c.dv()) * c.element();
  return work;
}

// The kernels with the tiles of dq: dq's own and epsilon's.
KernelWork dq_tiles_work(const WorkContext& c, PerScore per, int accumulators, bool has_overlap) {
  const Schedule& s = c.schedule;
  const TileCount count = c.figures.query_tiles(s.dq.block_rows, s.dq.block_cols);
  per.rows_products = c.d() + c.dv();
  per.loaded = c.d() + c.dv();

  KernelWork work;
  work.phases = {make_phase(c, per, s.dq, s.dq.block_cols, count.tiles * c.slices())};
  work.phases[0].depth = s.dq.stages - 1;
  set_blocks(count, c.slices(), work);
  work.is_persistent = work.is_dealt = c.is_hopper() && s.hopper.persistent;
  work.is_sorted = c.is_hopper();
  set_occupancy(
      c, s.dq, c.is_hopper() ? hopper_dq_shared_bytes(c.problem, s) : dq_shared_bytes(c.problem, s),
      {accumulators, kHopperDqOthers}, has_overlap, work);
  work.phases[0].amount[static_cast<size_t>(Resource::kDram)] =
      c.slices() * c.seq_q() * (c.d() + c.dv()) * c.element() +
      c.kv_slices() * c.seen_keys() * (c.d() + c.dv()) * c.element();
  return work;
}

KernelWork dq_work(const WorkContext& c) {
  PerScore per;
  per.register_products = c.d();
  per.special = 2;
  per.slots = with_forms(c, kDq, c.problem.p - 1);
  if (is_general(c.problem)) take(general_dq_loop(c), per);
  if (c.problem.dtype == DType::kFp16) per.slots.base += kDqScaleSlots;
  KernelWork work = dq_tiles_work(c, per, dq_accumulators(c.problem, c.schedule),
                                  c.is_hopper() && c.schedule.hopper.overlap);
  work.phases[0].amount[static_cast<size_t>(Resource::kDram)] +=
      c.slices() * c.seq_q() * c.d() * c.element();
  return work;
}

KernelWork epsilon_work(const WorkContext& c) {
  PerScore per;
  per.special = 1;
  per.slots = with_power(c, kEpsilon, c.problem.p - 1, 1);
  if (is_general(c.problem)) take(general_epsilon_loop(c), per);
  return dq_tiles_work(c, per, epsilon_accumulators(c.schedule), false);
}

}  // namespace

PassWork work_of(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                 const Target& target, const GpuModel& gpu, ProblemFigures& figures) {
  const WorkContext c{problem, sizes, schedule, target, gpu, figures};
  PassWork pass;
  const double heads_per_kv = c.slices() / std::max(1.0, c.kv_slices());
  const double key_row = c.d() * c.element();
  pass.row_bytes = c.kv_slices() * c.seq_k() * (key_row + 4);
  const auto add = [&](std::string_view entry, const KernelWork& work, double side_rows,
                       double readers) {
    pass.kernels.push_back(work);
    pass.kernels.back().entry = entry;
    add_misses(c, pass.kernels.back(), side_rows, readers);
  };
  if (divides_keys(problem, schedule)) {
    // Keys and values are read once, so no later read can miss the L2. lssar_decode_outputs counts
    // as a launch alone.
    pass.kernels.push_back(decode_work(c, "lssar_decode_scores"));
    pass.kernels.push_back(decode_work(c, "lssar_decode_values"));
    pass.row_bytes = 0;
    pass.launches = 3;
    return pass;
  }
  if (problem.pass != Pass::kBackward) {
    add(forward_entry(problem.pass), forward_work(c), c.seq_k(),
        schedule.pack_gqa ? 1 : heads_per_kv);
    pass.launches = 2;
    return pass;
  }
  add("lssar_backward_dkdv", dkdv_work(c), c.seq_q(), 1);
  const bool has_epsilon_pass = schedule.epsilon == EpsilonFrom::kPass;
  if (has_epsilon_pass) add("lssar_backward_epsilon", epsilon_work(c), c.seq_k(), heads_per_kv);
  const bool has_sums = sums_dq(schedule);
  if (!has_sums) add("lssar_backward_dq", dq_work(c), c.seq_k(), heads_per_kv);
  // The rows kernel reads q, g, o, what rounding took from it, and X. The last kernel reads the
  // sums and q.
  const double x_row = has_epsilon_pass ? 0 : 2 * c.dv();
  double query_row = key_row + c.dv() * (c.element() + 4) + x_row + 16 + kRowConstantBytes;
  if (has_sums) query_row += 8 * c.d() + 2 * key_row;
  pass.row_bytes += c.slices() * c.seq_q() * query_row;
  pass.launches = has_epsilon_pass ? 5 : 4;
  return pass;
}

}  // namespace lssar
