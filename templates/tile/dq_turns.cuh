// The order in which key tiles add to the sums of dq.
//
// For dk/dv kernels with kOrderedDq.
//
// A warp adds to one part of dq of a query tile: the same rows and columns as the warp of that
// number in every other block. A counter per part counts the key tiles that have added to it. Key
// tile t of a kv head waits for its turn, until the counter is t. Every earlier tile adds to the
// part too, because it sees the same queries and more. So each float is the sum of the same terms
// in the same order, however blocks are scheduled.
//
// A block draws its work tile by a ticket when it starts, and the key tiles of a kv head are
// numbered upwards. So it waits only for blocks that started before it, and the first of them waits
// for nobody. This cannot deadlock, in whatever order blocks start and however many run together.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/ptx/wait_limit.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// AttentionParams::dq_turns: the next ticket, then the counters.
template <class Config>
struct DqTurns {
  static constexpr int kWarps = Config::kDkdvBlockRows / kWarpRows;  // parts of a query tile

  static LSSAR_DEVICE i64 per_slice(const AttentionParams& params) {
    return ceil_div(seq_q<Config>(params), Config::kDkdvBlockCols) * kWarps;
  }
  static LSSAR_DEVICE u32* of_slice(const AttentionParams& params, i64 slice) {
    return params.dq_turns + 1 + slice * per_slice(params);
  }

  // `slice` is an index into [batch, heads].
  static LSSAR_DEVICE u32* of_part(const AttentionParams& params, i64 slice, i64 first_query,
                                   int warp) {
    return of_slice(params, slice) + first_query / Config::kDkdvBlockCols * kWarps + warp;
  }

  // kHasLengths: counters before those of the sequence after `rows_before` queries and `sequences`
  // sequences.
  static LSSAR_DEVICE i64 before_sequence(i64 rows_before, int sequences, int heads) {
    return (rows_before / Config::kDkdvBlockCols + sequences) * kWarps * heads;
  }

  // Clears the ticket counter before any block of the dk/dv kernel starts. One thread calls this,
  // whatever the lengths are.
  static LSSAR_DEVICE void clear_tickets(const AttentionParams& params) { params.dq_turns[0] = 0; }
  // Clears the counters of turns. `lanes` lanes call this for every row of the slice.
  static LSSAR_DEVICE void clear(const AttentionParams& params, i64 slice, i64 row, int lane,
                                 int lanes) {
    u32* counters = of_slice(params, slice);
    for (i64 i = row * lanes + lane; i < per_slice(params); i += seq_q<Config>(params) * lanes)
      counters[i] = 0;
  }

  // Draws the block's work tile for all its threads. `address` is a word of shared memory reserved
  // for this.
  static LSSAR_DEVICE u32 take_ticket(const AttentionParams& params, u32 address) {
    if (thread_index() == 0) store_shared(address, add_relaxed(params.dq_turns, 1));
    block_barrier();
    u32 ticket;
    load_shared(ticket, address);
    return ticket;
  }
};

// Whole warps call these before and after adding to dq.
LSSAR_DEVICE void begin_turn(const u32* counter, u32 key_tile, u32 line = LSSAR_CALLER_LINE) {
  SpinLimit limit(kWaitTurn, reinterpret_cast<u64>(counter), key_tile, line);
  // The warp leaves the loop by a vote. If lanes left one by one, ptxas would keep values that all
  // lanes share, such as descriptors, in per-lane registers (2 slots per score at d 128).
  while (!warp_all(lane_index() != 0 || load_acquire(counter) == key_tile)) limit.spin();
  warp_barrier();
}
LSSAR_DEVICE void end_turn(u32* counter) {
  warp_barrier();
  if (lane_index() == 0) add_release(counter, 1);
}

}  // namespace lssar_device
