// Constants of the cost model that are neither counts nor rates of a GPU. They are fitted to
// published times, or assumed. docs/cost_model.md has the source of each. For assumed ones it has
// the range in which the default schedules keep their places.
//
// Threads: plain values.
#pragma once

namespace lssar {

struct CostConstants {
  // Clocks for the start and end of a block. Clocks for the end of a work tile and the start of the
  // next one, if a block has several.
  double block_clocks = 3800, tile_clocks = 3800;
  // Clocks from the request of a tile in the L2 to its use: by cp.async, and in the ring that TMA
  // fills, where a tile also waits for all consumers.
  double load_clocks = 800, ring_clocks = 2400;

  // Bytes of L2 bandwidth per byte that is added to a sum. The sum is read and written there.
  double sum_cost = 2;
  // The share of the L2 that keys and values of the running heads can fill.
  double usable_l2 = 0.7;
  // The share of DRAM's bandwidth that streams reach.
  double dram_share = 0.9;

  // The part of the shorter resources' time that a single stream hides if its next product is in
  // flight.
  double hidden_alone = 0.75;
  // Without a product in flight, n streams hide 1 - n^-stream_power.
  double stream_power = 3.5;
  // How much less a cluster hides for each block beyond the first, because blocks wait for each
  // other.
  double cluster_wait = 0.05;
  // The part of a block's end that remains if o is stored in whole rows.
  double store_share = 0.85;
  // Clocks that a turn of ordered sums waits until its counter has gone to the L2 and back.
  double ordered_clocks = 2000;
  // The cost of a register that does not fit, as a share of the time. A search compiles the
  // candidates and rejects those that spill, on a GPU those that spill much.
  double spilled_register = 0.02;
};

}  // namespace lssar
