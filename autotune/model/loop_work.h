// The parts that make up the kernels' work. Internal to the cost model.
//
// Threads: pure functions.
#pragma once

#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"
#include "codegen/pass_needs.h"
#include "codegen/sizes.h"
#include "codegen/visible_keys.h"

namespace lssar {

// What is estimated.
struct WorkContext {
  const Problem& problem;
  const Sizes& sizes;
  const Schedule& schedule;
  const Target& target;
  const GpuModel& gpu;
  ProblemFigures& figures;

  bool is_hopper() const { return schedule.variant == Variant::kHopper; }
  bool has_x() const { return sums_x(problem, schedule); }
  double d() const { return problem.head_dim; }
  double dv() const { return problem.head_dim_v; }
  double element() const { return dtype_bytes(problem.dtype); }
  double slices() const { return static_cast<double>(sizes.batch * sizes.heads); }
  double kv_slices() const { return static_cast<double>(sizes.batch * sizes.kv_heads); }
  double seq_q() const { return static_cast<double>(sizes.seq_q); }
  double seq_k() const { return static_cast<double>(sizes.seq_k); }
  // Keys that some query sees: all but those that a window leaves out.
  double seen_keys() const {
    if (!has_window(problem) || sizes.seq_q == 0) return seq_k();
    const int64_t last = sizes.seq_q - 1;
    return static_cast<double>(
        visible_key_tiles(problem, sizes.seq_q, sizes.seq_k, 0, last, 1).count());
  }
};

// Instruction slots of a loop: `base` per score, and `tile + tile_dim * head_dim` per thread and
// tile.
struct LoopSlots {
  double base, tile, tile_dim;
};
// What one score costs.
struct PerScore {
  double rows_products = 0;      // depth of products with both operands in shared memory
  double register_products = 0;  // with one of them in registers
  double special = 0;
  LoopSlots slots = {};
  double shared = 0;  // bytes of shared memory besides those of products
  double loaded = 0;  // columns of the tile that come from global memory
};

// `num_tiles` tiles of rows x cols, over the whole launch.
Phase make_phase(const WorkContext& c, const PerScore& per, const Tiling& tiling, int cols,
                 double num_tiles);

void set_blocks(const TileCount& count, double slices, KernelWork& work);

// Accumulators of a thread, and the other registers that a Hopper kernel needs.
struct RegisterNeed {
  int accumulators, hopper_others;
};
// Sets blocks per SM, and how much of one resource's time others hide. REQUIRES: is_persistent is
// set.
void set_occupancy(const WorkContext& c, const Tiling& tiling, int shared_bytes,
                   const RegisterNeed& need, bool has_overlap, KernelWork& work);

// Blocks that run together read the same rows again and again. What does not fit in the L2 comes
// from DRAM, and neighbouring blocks of one head share it. `side_rows`: rows that the blocks of one
// slice walk over. `readers`: slices that read the same rows.
void add_misses(const WorkContext& c, KernelWork& work, double side_rows, double readers);

}  // namespace lssar
