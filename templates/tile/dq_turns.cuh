// The order in which key tiles add to the sums of dq: kOrderedDq, by the dk/dv kernels.
//
// Each warp of a block adds to a part of dq of a query tile, the same rows and columns as the warp
// of that number in every other block. A counter per part says how many key tiles have added to it:
// tile t of a kv head waits until it is t. Tiles before t see the same queries and more, so all of
// them come. Each float is then the sum of the same terms in the same order, whatever runs when.
//
// A block takes its work tile when it starts (take_ticket), and the key tiles of a kv head are
// numbered upwards. So it waits for blocks only that have started before it, of which the first
// waits for nobody: no order of starting blocks, nor how many run together, leads to a deadlock.
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

  // `slice`: of [batch, heads].
  static LSSAR_DEVICE u32* of_part(const AttentionParams& params, i64 slice, i64 first_query,
                                   int warp) {
    return of_slice(params, slice) + first_query / Config::kDkdvBlockCols * kWarps + warp;
  }

  // Before any block of the dk/dv kernel starts; by one thread, whatever the lengths are ...
  static LSSAR_DEVICE void clear_tickets(const AttentionParams& params) { params.dq_turns[0] = 0; }
  // ... and by `lanes` lanes for every row of the slice.
  static LSSAR_DEVICE void clear(const AttentionParams& params, i64 slice, i64 row, int lane,
                                 int lanes) {
    u32* counters = of_slice(params, slice);
    for (i64 i = row * lanes + lane; i < per_slice(params); i += seq_q<Config>(params) * lanes)
      counters[i] = 0;
  }

  // The work tile of the block, for all its threads; `address`: a word of shared memory of its own.
  static LSSAR_DEVICE u32 take_ticket(const AttentionParams& params, u32 address) {
    if (thread_index() == 0) store_shared(address, add_relaxed(params.dq_turns, 1));
    block_barrier();
    u32 ticket;
    load_shared(ticket, address);
    return ticket;
  }
};

// By whole warps, around what they add.
LSSAR_DEVICE void begin_turn(const u32* counter, u32 key_tile, u32 line = LSSAR_CALLER_LINE) {
  SpinLimit limit(kWaitTurn, reinterpret_cast<u64>(counter), key_tile, line);
  // By a vote: lanes that leave a loop one by one make the assembler keep what all of them share,
  // such as descriptors, per lane (2 slots per score at d 128).
  while (!warp_all(lane_index() != 0 || load_acquire(counter) == key_tile)) limit.spin();
  warp_barrier();
}
LSSAR_DEVICE void end_turn(u32* counter) {
  warp_barrier();
  if (lane_index() == 0) add_release(counter, 1);
}

}  // namespace lssar_device
