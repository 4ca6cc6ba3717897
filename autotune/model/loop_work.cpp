#include "autotune/model/loop_work.h"

#include <algorithm>
#include <cmath>

#include "autotune/space/registers.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// mma.sync: instructions (mma and ldmatrix) per score and unit of depth. Together with the loops'
// figures above, this is within 5 % of what ptxas 13.0 makes of the forward for sm_80.
constexpr double kMmaSlots = 1.5 / 64;
// A copy into shared memory with its address and predicate. Copying single elements takes less.
constexpr double kCopySlots = 20, kPlainSaves = 2.5;
constexpr double kFmaSlots = 1.25;  // float32 products, with their loads

int registers_guess(int accumulators, int available) {
  constexpr int kBeside = 80;
  return std::min(available, accumulators + kBeside);
}

// Warps are dealt to an SM's schedulers in turn. The one with the most works longest.
double busy_share(int warps) {
  constexpr int kSchedulers = 4;
  const int most = (warps + kSchedulers - 1) / kSchedulers;
  return static_cast<double>(warps) / (kSchedulers * most);
}

// Spilling costs a little here; a compiled candidate that spills is rejected.
double spill_factor(const WorkContext& c, const RegisterNeed& need, int available) {
  constexpr int kPortableOthers = 72;  // with fewer ptxas 13.0 spills
  const int others = c.is_hopper() ? need.hopper_others : kPortableOthers;
  return 1 + c.gpu.constants.spilled_register * std::max(0, need.accumulators + others - available);
}

}  // namespace

Phase make_phase(const WorkContext& c, const PerScore& per, const Tiling& tiling, int cols,
                 double num_tiles) {
  const double rows = tiling.block_rows;
  const double scores = num_tiles * rows * cols;
  const double products = per.rows_products + per.register_products;
  double slots = per.slots.base + (per.slots.tile + per.slots.tile_dim * c.d()) / (cols / 2.0);
  double shared = 0;
  const bool is_fp32 = c.problem.dtype == DType::kFp32;
  if (c.is_hopper()) {
    // A wgmma of 64 rows and a depth of 16 reads 32 bytes per column, and 2048 bytes of its rows
    // unless these are in registers. Below 64 columns this takes longer than the product.
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
  phase.operand_bytes = shared * scores;
  shared += per.shared;
  phase.tiles = num_tiles;
  phase.scores = scores;
  phase.amount = {is_fp32 ? 0 : 2 * products * scores,
                  per.special * scores,
                  slots * scores,
                  shared * scores,
                  num_tiles * cols * per.loaded * c.element(),
                  0};
  return phase;
}

void set_blocks(const TileCount& count, double slices, KernelWork& work) {
  work.slices = std::max(slices, 1.0);
  work.blocks = count.blocks * slices;
  work.longest = count.longest;
  work.shortest = count.shortest;
}

void set_occupancy(const WorkContext& c, const Tiling& tiling, int shared_bytes,
                   const RegisterNeed& need, bool has_overlap, KernelWork& work) {
  const Target& target = c.target;
  const int threads = c.is_hopper() ? hopper_threads(tiling) : tiling_threads(tiling);
  const int available = thread_registers(c.schedule, tiling, target);
  const int registers = c.is_hopper() ? hopper_launch_registers(tiling)
                                      : (registers_guess(need.accumulators, available) + 7) / 8 * 8;
  int blocks = std::min({target.registers_per_sm / (threads * registers),
                         target.shared_bytes_per_sm / (shared_bytes + kReservedSharedBytes),
                         target.threads_per_sm / threads});
  if (work.is_persistent) blocks = std::min(blocks, tiling.min_blocks);
  work.blocks_per_sm = std::max(blocks, 1);
  work.spill_factor = spill_factor(c, need, available);
  const CostConstants& constants = c.gpu.constants;
  work.block_clocks =
      (work.is_persistent ? constants.tile_clocks : constants.block_clocks) / work.blocks_per_sm;
  work.load_clocks = c.is_hopper() ? constants.ring_clocks : constants.load_clocks;

  if (!c.is_hopper()) work.busy = busy_share(threads / kWarpThreads * work.blocks_per_sm);

  // Instruction streams per scheduler that can do different things at the same time. Four warps of
  // 16 rows are one.
  const double groups = tiling.block_rows / 64.0;
  const bool has_ping_pong = c.is_hopper() && c.schedule.hopper.ping_pong && groups > 1;
  const double of_block = has_ping_pong || groups < 1 ? groups : 1 + 0.5 * (groups - 1);
  const double streams = std::max(1.0, of_block * work.blocks_per_sm);
  const double alone = constants.hidden_alone;
  work.hidden = has_overlap ? std::min(1.0, alone + (1 - alone) * (streams - 1))
                            : 1 - std::pow(streams, -constants.stream_power);
}

void add_misses(const WorkContext& c, KernelWork& work, double side_rows, double readers) {
  const double concurrent =
      std::min(static_cast<double>(c.gpu.num_sms) * work.blocks_per_sm, work.blocks);
  const double per_slice = std::max(1.0, work.blocks / work.slices);
  work.together = std::min(
      c.is_hopper() ? c.schedule.hopper.head_group : concurrent / per_slice + 1, work.slices);
  const double set =
      std::max(1.0, work.together / readers) * side_rows * (c.d() + c.dv()) * c.element();
  const double room = c.gpu.constants.usable_l2 * c.gpu.l2_bytes;
  const double miss = std::clamp(1 - room / std::max(set, 1.0), 0.0, 1.0);
  const double sharing = std::max(1.0, 0.5 * concurrent / work.together);
  for (Phase& phase : work.phases)
    phase.amount[static_cast<size_t>(Resource::kDram)] +=
        miss / sharing * phase.amount[static_cast<size_t>(Resource::kL2)];
}

}  // namespace lssar
