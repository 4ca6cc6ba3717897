#include "autotune/kernel_work.h"

#include <algorithm>
#include <cmath>

#include "autotune/registers.h"
#include "codegen/kernel.h"
#include "codegen/power_chain.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// ---- figures of docs/performance.md ("instruction slots"), read from machine code. A loop costs
// `base` slots per score, and `tile + tile_dim * head_dim` per thread and tile of it.
struct LoopSlots {
  double base, tile, tile_dim;
};
constexpr int kTablePower = 15;  // base holds its five multiplications
constexpr int kTableDegree = 4;  // and this polynomial
constexpr LoopSlots kSumScores = {7.3, 32, 0.375};
constexpr LoopSlots kSumOperands = {5.0, 32, 0.375};
constexpr LoopSlots kWeighScores = {15.9, 75, 0.23};
constexpr double kOperandsSave = 2.4;  // of the norms, in pass 2
constexpr double kBriefSaves = 5.0, kLinearSaves = 7.0;
constexpr LoopSlots kBackward = {22, 225, 0.15};
constexpr double kSlopeSlots = 5;  // u^(p-1) beside u^p, its rounding and its sum (for X)
// ---- not read from anything: start and end of a block in clocks
constexpr double kBlockClocks = 2500, kPersistentClocks = 800;

// mma.sync: instructions (mma and ldmatrix) per score and unit of depth. With the loops' figures
// above, within 5 % of what ptxas 13.0 makes of the forward for sm_80.
constexpr double kMmaSlots = 1.5 / 64;
// A copy into shared memory with its address and predicate; an element's takes less.
constexpr double kCopySlots = 20, kPlainSaves = 2.5;
constexpr double kFmaSlots = 1.25;  // float32 products, with their loads

struct Context {
  const Problem& problem;
  const Sizes& sizes;
  const Schedule& schedule;
  const Target& target;

  bool is_hopper() const { return schedule.variant == Variant::kHopper; }
  bool has_x() const { return problem.pass == Pass::kForwardTrain && needs_x(problem); }
  double d() const { return problem.head_dim; }
  double dv() const { return problem.head_dim_v; }
  double element() const { return dtype_bytes(problem.dtype); }
  double slices() const { return static_cast<double>(sizes.batch * sizes.heads); }
  double kv_slices() const { return static_cast<double>(sizes.batch * sizes.kv_heads); }
  double seq_q() const { return static_cast<double>(sizes.seq_q); }
  double seq_k() const { return static_cast<double>(sizes.seq_k); }
};

double multiplications(int power) {
  return power < 1 ? 0 : static_cast<double>(shortest_power_chain(power).size());
}

// What one score costs.
struct PerScore {
  double rows_products = 0;      // depth of products with both operands in shared memory
  double register_products = 0;  // with one of them in registers
  double special = 0;
  LoopSlots slots = {};
  double loaded = 0;  // columns of the tile that are read from global memory
};

// `turns` tiles of rows x cols, over the whole launch.
Phase make_phase(const Context& c, const PerScore& per, const Tiling& tiling, int cols,
                 double turns) {
  const double rows = tiling.block_rows;
  const double scores = turns * rows * cols;
  const double products = per.rows_products + per.register_products;
  double slots = per.slots.base + (per.slots.tile + per.slots.tile_dim * c.d()) / (cols / 2.0);
  double shared = 0;
  const bool is_fp32 = c.problem.dtype == DType::kFp32;
  if (c.is_hopper()) {
    // A wgmma of 64 rows and a depth of 16 reads 32 bytes per column, and 2048 of its rows unless
    // they are in registers: below 64 columns that takes longer than the product.
    shared = per.rows_products * (2.0 / cols + 1.0 / 32) + per.register_products / 32 +
             c.element() * per.loaded / rows;
  } else {
    // Every warp of 16 rows reads the whole tile.
    shared = products * c.element() / 16 + c.element() * per.loaded / rows;
    const double copy_bytes =
        c.schedule.load_path == LoadPath::kCpAsync ? 16 : c.element() * kPlainSaves;
    slots += products * (is_fp32 ? kFmaSlots : kMmaSlots) +
             kCopySlots * c.element() * per.loaded / copy_bytes / rows;
  }
  Phase phase;
  phase.tiles = turns;
  phase.amount = {is_fp32 ? 0 : 2 * products * scores,
                  per.special * scores,
                  slots * scores,
                  shared * scores,
                  turns * cols * per.loaded * c.element(),
                  0};
  return phase;
}

// Of what blocks that run together read again and again, the part that the L2 cannot hold comes
// from DRAM; blocks of one head that are near each other share it.
// `side_rows`: rows that the blocks of one slice walk over; `readers`: slices that read the same.
void add_misses(const Context& c, KernelWork& work, double side_rows, double readers,
                const GpuModel& gpu) {
  const double concurrent =
      std::min(static_cast<double>(gpu.num_sms) * work.blocks_per_sm, work.blocks);
  const double per_slice = std::max(1.0, work.blocks / work.slices);
  work.together = std::min(
      c.is_hopper() ? c.schedule.hopper.head_group : concurrent / per_slice + 1, work.slices);
  const double set =
      std::max(1.0, work.together / readers) * side_rows * (c.d() + c.dv()) * c.element();
  constexpr double kUsable = 0.7;
  const double miss = std::clamp(1 - kUsable * gpu.l2_bytes / std::max(set, 1.0), 0.0, 1.0);
  const double sharing = std::max(1.0, 0.5 * concurrent / work.together);
  for (Phase& phase : work.phases)
    phase.amount[static_cast<size_t>(Resource::kDram)] +=
        miss / sharing * phase.amount[static_cast<size_t>(Resource::kL2)];
}

int registers_guess(int accumulators, int available) {
  constexpr int kBeside = 80;
  return std::min(available, accumulators + kBeside);
}

// Spilling costs a little; being rejected for it after the compile costs the candidate.
double spill_factor(int accumulators, int available) {
  constexpr int kBeside = 56;  // by what ptxas 13.0 spills with
  constexpr double kPerRegister = 0.02;
  return 1 + kPerRegister * std::max(0, accumulators + kBeside - available);
}

// Blocks per SM, and how much of one resource's time others hide.
void set_occupancy(const Context& c, const Tiling& tiling, int shared_bytes, int accumulators,
                   bool has_overlap, KernelWork& work) {
  constexpr int kReservedBytes = 1024;
  const Target& target = c.target;
  const int threads = c.is_hopper() ? hopper_threads(tiling) : tiling_threads(tiling);
  const int available = thread_registers(c.schedule, tiling, target);
  const int registers = c.is_hopper() ? hopper_launch_registers(tiling)
                                      : (registers_guess(accumulators, available) + 7) / 8 * 8;
  int blocks = std::min({target.registers_per_sm / (threads * registers),
                         target.shared_bytes_per_sm / (shared_bytes + kReservedBytes),
                         target.threads_per_sm / threads});
  if (work.is_persistent) blocks = std::min(blocks, tiling.min_blocks);
  work.blocks_per_sm = std::max(blocks, 1);
  work.spill_factor = spill_factor(accumulators, available);
  work.block_clocks = (work.is_persistent ? kPersistentClocks : kBlockClocks) / work.blocks_per_sm;

  // Instruction streams per scheduler that can be at different things.
  const int groups = c.is_hopper() ? tiling.block_rows / 64 : std::max(1, tiling.block_rows / 64);
  const bool take_turns = c.is_hopper() ? c.schedule.hopper.ping_pong && groups > 1 : false;
  const double streams =
      take_turns ? groups * work.blocks_per_sm : (1 + 0.5 * (groups - 1)) * work.blocks_per_sm;
  constexpr double kAlone = 0.75;  // of a single stream with the next product in flight
  work.hidden = has_overlap ? std::min(1.0, kAlone + (1 - kAlone) * (streams - 1))
                            : 1 - std::pow(streams, -2.0);
}

LoopSlots with_power(LoopSlots slots, int power, int degree, double polynomial_share) {
  slots.base += multiplications(power) - multiplications(kTablePower);
  slots.base += polynomial_share * (degree - kTableDegree);
  return slots;
}

void set_blocks(const TileCount& count, double slices, KernelWork& work) {
  work.slices = std::max(slices, 1.0);
  work.blocks = count.blocks * slices;
  work.longest = count.longest;
  work.shortest = count.shortest;
}

KernelWork forward_work(const Context& c) {
  const Schedule& s = c.schedule;
  const HopperOptions& hopper = s.hopper;
  const bool has_unit_keys = needs_unit_keys(c.problem, s);
  const bool in_registers = !c.is_hopper() || hopper.queries_in_registers;
  const int sum_cols = c.is_hopper() ? hopper.score_cols : s.forward.block_cols;
  const TileCount sums = query_tiles(c.problem, c.sizes, s.forward.block_rows, sum_cols);
  const TileCount weights =
      query_tiles(c.problem, c.sizes, s.forward.block_rows, s.forward.block_cols);
  const double chunks = std::ceil(c.dv() / s.block_dv);
  const EvaluatorMix mix = evaluator_mix(c.problem, c.sizes, s);

  PerScore sum;
  (in_registers ? sum.register_products : sum.rows_products) = c.d();
  sum.special = 1;
  sum.slots = has_unit_keys ? kSumOperands : kSumScores;
  sum.loaded = c.d();

  PerScore weigh;
  (in_registers ? weigh.register_products : weigh.rows_products) = c.d();
  weigh.register_products += s.block_dv * (c.has_x() ? 2 : 1);
  weigh.special = 1 - mix.linear;
  weigh.slots = with_power(kWeighScores, c.problem.p, s.softplus_degree, mix.full);
  weigh.slots.base -=
      (has_unit_keys ? kOperandsSave : 0) + mix.brief * kBriefSaves + mix.linear * kLinearSaves;
  if (c.has_x()) weigh.slots.base += kSlopeSlots;
  weigh.loaded = c.d() + s.block_dv;

  KernelWork work;
  work.phases = {
      make_phase(c, sum, s.forward, sum_cols, sums.tiles * c.slices()),
      make_phase(c, weigh, s.forward, s.forward.block_cols, weights.tiles * c.slices() * chunks)};
  work.phases[0].depth = s.forward.stages - 1;
  work.phases[1].depth = (s.forward.stages - 1) / 2.0;  // a slot for keys, another for values
  set_blocks(weights, c.slices(), work);
  work.is_persistent = c.is_hopper() && hopper.persistent;
  work.is_sorted = c.is_hopper();
  const int shared = c.is_hopper() ? hopper_forward_shared_bytes(c.problem, s)
                                   : forward_shared_bytes(c.problem, s);
  set_occupancy(c, s.forward, shared, forward_accumulators(c.problem, s),
                c.is_hopper() && hopper.overlap, work);
  // Outputs and saved statistics, and each input once.
  const double saved = c.problem.pass == Pass::kForwardTrain ? 4 * c.dv() + 16 : 0;
  work.phases[1].amount[static_cast<size_t>(Resource::kDram)] =
      c.slices() * c.seq_q() *
          ((c.d() + c.dv()) * c.element() + saved + (c.has_x() ? 2 * c.dv() : 0)) +
      c.kv_slices() * c.seq_k() * (c.d() + c.dv()) * c.element();
  return work;
}

KernelWork dkdv_work(const Context& c) {
  const Schedule& s = c.schedule;
  const bool is_atomic = s.dq_mode == DqMode::kAtomic;
  const TileCount count = key_tiles(c.problem, c.sizes, s.dkdv.block_rows, s.dkdv.block_cols);
  const double turns = count.tiles * c.slices();  // every head that reads the keys
  const int power = c.problem.p - 1;

  PerScore both;
  both.rows_products = c.d() + c.dv();
  both.register_products = c.d() + c.dv();
  both.special = 2;
  both.slots = with_power(kBackward, power, s.softplus_degree, 1);
  both.loaded = c.d() + c.dv();
  if (is_atomic) both.rows_products += c.d();

  KernelWork work;
  if (s.split_dkdv) {
    // dv: scores and weights; dk: everything but dv's product.
    PerScore values;
    values.rows_products = c.d();
    values.register_products = c.dv();
    values.special = 1;
    values.slots = with_power(kWeighScores, c.problem.p, s.softplus_degree, 1);
    values.loaded = c.d() + c.dv();
    work.phases.push_back(make_phase(c, values, s.dkdv, s.dkdv.block_cols, turns));
    both.register_products -= c.dv();
  }
  work.phases.push_back(make_phase(c, both, s.dkdv, s.dkdv.block_cols, turns));
  if (is_atomic) {
    // Read, added to and written, at half the rate.
    constexpr double kAtomicBytes = 16;
    work.phases.back().amount[static_cast<size_t>(Resource::kL2)] +=
        turns * s.dkdv.block_cols * c.d() * kAtomicBytes;
  }
  for (Phase& phase : work.phases) phase.depth = s.dkdv.stages - 1;
  set_blocks(count, c.kv_slices(), work);
  work.is_persistent = c.is_hopper() && s.hopper.persistent;
  work.is_sorted = c.is_hopper();
  set_occupancy(
      c, s.dkdv,
      c.is_hopper() ? hopper_dkdv_shared_bytes(c.problem, s) : dkdv_shared_bytes(c.problem, s),
      dkdv_accumulators(c.problem, s), false, work);
  work.phases.back().amount[static_cast<size_t>(Resource::kDram)] =
      c.slices() * c.seq_q() *
          ((c.d() + c.dv()) * c.element() + kRowConstantBytes + (is_atomic ? 8 * c.d() : 0)) +
      2 * c.kv_slices() * c.seq_k() * (c.d() + c.dv()) * c.element();
  return work;
}

KernelWork dq_work(const Context& c) {
  const Schedule& s = c.schedule;
  const TileCount count = query_tiles(c.problem, c.sizes, s.dq.block_rows, s.dq.block_cols);
  PerScore per;
  per.rows_products = c.d() + c.dv();
  per.register_products = c.d();
  per.special = 2;
  per.slots = with_power(kBackward, c.problem.p - 1, s.softplus_degree, 1);
  per.loaded = c.d() + c.dv();

  KernelWork work;
  work.phases = {make_phase(c, per, s.dq, s.dq.block_cols, count.tiles * c.slices())};
  work.phases[0].depth = s.dq.stages - 1;
  set_blocks(count, c.slices(), work);
  work.is_persistent = c.is_hopper() && s.hopper.persistent;
  work.is_sorted = c.is_hopper();
  set_occupancy(
      c, s.dq, c.is_hopper() ? hopper_dq_shared_bytes(c.problem, s) : dq_shared_bytes(c.problem, s),
      dq_accumulators(c.problem, s), c.is_hopper() && s.hopper.overlap, work);
  work.phases[0].amount[static_cast<size_t>(Resource::kDram)] =
      c.slices() * c.seq_q() * (2 * c.d() + c.dv()) * c.element() +
      c.kv_slices() * c.seq_k() * (c.d() + c.dv()) * c.element();
  return work;
}

}  // namespace

PassWork work_of(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                 const Target& target, const GpuModel& gpu) {
  const Context c{problem, sizes, schedule, target};
  PassWork pass;
  const double heads_per_kv = c.slices() / std::max(1.0, c.kv_slices());
  const double key_row = c.d() * c.element();
  pass.row_bytes =
      c.kv_slices() * c.seq_k() * (key_row + (needs_unit_keys(problem, schedule) ? 2 * c.d() : 4));
  const auto add = [&](KernelWork work, double side_rows, double readers) {
    add_misses(c, work, side_rows, readers, gpu);
    pass.kernels.push_back(std::move(work));
  };
  if (problem.pass != Pass::kBackward) {
    add(forward_work(c), c.seq_k(), heads_per_kv);
    pass.launches = 2;
    return pass;
  }
  add(dkdv_work(c), c.seq_q(), 1);
  const bool is_atomic = schedule.dq_mode == DqMode::kAtomic;
  if (!is_atomic) add(dq_work(c), c.seq_k(), heads_per_kv);
  // The rows kernel reads q, g, the saved o and X; the last one reads the sums and q.
  double query_row = key_row + c.dv() * (c.element() + 4) + 2 * c.dv() + 16 + kRowConstantBytes;
  if (is_atomic) query_row += 8 * c.d() + 2 * key_row;
  pass.row_bytes += c.slices() * c.seq_q() * query_row;
  pass.launches = 4;
  return pass;
}

}  // namespace lssar
