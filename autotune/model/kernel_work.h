// What a schedule's kernels do, in amounts of each resource: the cost model's left side.
//
// Used by cost_model.cpp. Threads: pure functions.
#pragma once

#include <array>
#include <string_view>

#include "autotune/model/cost_model.h"
#include "base/fixed_vector.h"

namespace lssar {

// A loop over tiles: everything in it runs side by side, and nothing of another phase does.
struct Phase {
  // Over the whole launch: FLOP, special functions, instruction slots, bytes of shared memory, of
  // the L2, of DRAM.
  std::array<double, kNumResources> amount = {};
  double tiles = 0;  // over all blocks
  double depth = 1;  // tiles that are loaded ahead
};

// Bytes of the L2's bandwidth that adding to a byte of sums takes: read, added to and written, at
// half the rate.
inline constexpr double kSumCost = 4;

// One launch of blocks that walk over tiles.
struct KernelWork {
  std::string_view entry;  // LaunchStep::entry
  FixedVector<Phase, 3> phases;
  double blocks = 0;                 // work tiles
  double slices = 1;                 // heads, of all batches, that have as many of them each
  double together = 1;               // slices that are worked on at the same time
  double longest = 1, shortest = 1;  // tiles that a work tile walks over
  bool is_sorted = false;            // longest first within those together
  bool is_persistent = false;        // a block has more than one of them
  bool is_dealt = false;             // round-robin, not by tickets
  int blocks_per_sm = 1;
  double hidden = 1;        // share of the resources' times that others hide: 1 = all but the root
                            // of the sum of squares, 0 = they add up
  double block_clocks = 0;  // start and end of a work tile
  double turn_clocks = 0;   // that a key tile waits for its turn, in ordered sums
  double spill_factor = 1;  // > 1: registers will hardly do
};

struct PassWork {
  FixedVector<KernelWork, 3> kernels;
  double row_bytes = 0;  // DRAM bytes of the kernels on whole rows
  int launches = 0;
};

class ProblemFigures;

// `figures` are those of the problem and sizes.
PassWork work_of(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                 const Target& target, const GpuModel& gpu, ProblemFigures& figures);

// Shares of pass 2's, or the backward's, scores whose rows take the cheaper forms of softplus, for
// Gaussian q and k.
struct EvaluatorMix {
  double full = 1, brief = 0, linear = 0;
};
EvaluatorMix evaluator_mix(const Problem& problem, const Sizes& sizes, const Schedule& schedule);

// Tiles that a kernel's blocks walk over, for one head.
struct TileCount {
  double tiles = 0;  // over all blocks
  double blocks = 0;
  double longest = 0, shortest = 0;  // of a block
};
// Blocks of `rows` queries that walk over tiles of `cols` keys.
TileCount query_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols);
// The same for one kv head where tiles of `packed_rows`, of which `rows` are whole ones, pack the
// queries of the heads that share it.
TileCount packed_query_tiles(const Problem& problem, const Sizes& sizes, int packed_rows, int rows,
                             int cols);
// Blocks of `rows` keys that walk over tiles of `cols` queries.
TileCount key_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols);

}  // namespace lssar
