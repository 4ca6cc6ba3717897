// What a schedule's kernels do, in amounts of each resource: the input of the cost model.
//
// Used by cost_model.cpp. Threads: pure functions.
#pragma once

#include <array>
#include <string_view>

#include "autotune/model/cost_model.h"
#include "base/fixed_vector.h"

namespace lssar {

// A loop over tiles. Everything in it overlaps, and nothing of another phase does.
struct Phase {
  // For the whole launch: FLOP, special functions, instruction slots, bytes of shared memory, of
  // the L2, of DRAM.
  std::array<double, kNumResources> amount = {};
  // The part of the shared memory bytes that products read and copies write, without the threads'
  // own accesses.
  double operand_bytes = 0;
  double tiles = 0;   // over all blocks
  double scores = 0;  // of these tiles
  double depth = 1;   // tiles loaded ahead
};

// One launch of blocks that walk over tiles.
struct KernelWork {
  std::string_view entry;  // LaunchStep::entry
  FixedVector<Phase, 3> phases;
  double blocks = 0;                 // work tiles
  double slices = 1;                 // heads of all batches; each has the same number of blocks
  double together = 1;               // slices that run at the same time
  double longest = 1, shortest = 1;  // tiles per work tile
  bool is_sorted = false;            // longest first within slices that run together
  bool is_persistent = false;        // a block has more than one work tile
  bool is_dealt = false;             // round-robin, not by tickets
  int blocks_per_sm = 1;
  double busy = 1;          // share of an SM's schedulers that have a warp
  double hidden = 1;        // share of the resources' times that others hide: 1 = all except the
                            // root of the sum of squares, 0 = they add up
  double block_clocks = 0;  // start and end of a work tile
  double load_clocks = 0;   // from the request of a tile to its use
  double turn_clocks = 0;   // wait of a key tile for its turn, in ordered sums
  double spill_factor = 1;  // > 1: registers will probably spill
};

struct PassWork {
  FixedVector<KernelWork, 3> kernels;
  double row_bytes = 0;  // DRAM bytes of the kernels on whole rows
  int launches = 0;
};

class ProblemFigures;

// REQUIRES: `figures` are those of the problem and sizes.
PassWork work_of(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                 const Target& target, const GpuModel& gpu, ProblemFigures& figures);

// Shares of the scores, in pass 2 or the backward, whose rows take the cheaper forms of softplus.
// For Gaussian q and k.
struct EvaluatorMix {
  double full = 1, brief = 0, linear = 0;
};
EvaluatorMix evaluator_mix(const Problem& problem, const Sizes& sizes, const Schedule& schedule);

// The tiles that a kernel's blocks walk over, for one head.
struct TileCount {
  double tiles = 0;  // over all blocks
  double blocks = 0;
  double longest = 0, shortest = 0;  // of a block
};
// Blocks of `rows` queries that walk over tiles of `cols` keys.
TileCount query_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols);
// The tiles among these that a block visits after the first `kept_keys` keys of its walk.
double query_tiles_beyond(const Problem& problem, const Sizes& sizes, int rows, int cols,
                          int64_t kept_keys);
// The tiles for one kv head, if tiles pack the queries of the heads that share it: `packed_rows`
// rows, of which `rows` are complete ones.
TileCount packed_query_tiles(const Problem& problem, const Sizes& sizes, int packed_rows, int rows,
                             int cols);
// Blocks of `rows` keys that walk over tiles of `cols` queries.
TileCount key_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols);

}  // namespace lssar
