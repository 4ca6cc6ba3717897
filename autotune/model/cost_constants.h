// What the cost model takes for granted beside counts and the rates of a GPU: fitted to published
// times, or assumed. docs/cost_model.md has the source of each, and of those that are assumed the
// range in which the default schedules keep their places.
//
// Threads: plain values.
#pragma once

namespace lssar {

struct CostConstants {
  // Start and end of a block, in clocks; the end of a work tile and the start of the next one,
  // where a block has several.
  double block_clocks = 5500, tile_clocks = 3800;
  // Clocks from the request of a tile in the L2 to its use.
  double load_clocks = 800;

  // Bytes of L2 bandwidth per byte that is added to a sum: it is read and written there.
  double sum_cost = 2;
  // The share of the L2 that keys and values of heads at work can fill.
  double usable_l2 = 0.7;
  // The share of DRAM's bandwidth that streams reach.
  double dram_share = 0.9;

  // How much of the shorter resources' time a single stream hides that has the next product in
  // flight.
  double hidden_alone = 0.75;
  // Without a product in flight, n streams hide 1 - n^-stream_power.
  double stream_power = 2;
  // How much less is hidden in a cluster for each block beyond one, because it waits for the
  // others.
  double cluster_wait = 0.02;
  // What remains of a block's end if o goes out in whole rows.
  double store_share = 0.85;
  // Clocks that a turn of ordered sums waits, for a counter's way to the L2 and back after the
  // sums.
  double ordered_clocks = 1000;
  // The cost of a register that does not fit, as a share of the time. A search compiles the
  // candidates and rejects those that spill.
  double spilled_register = 0.02;
};

}  // namespace lssar
