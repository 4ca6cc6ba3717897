// Tickets: which block of a persistent grid works on which tile is decided when it has time.
//
// A block's first work tile is that of its number; each further one it takes from a counter in
// global memory. The kernel on whole rows that runs before sets the counter to 0, on the same
// stream: so each call, and each replay of a captured one, begins anew, and calls with workspaces
// of their own do not meet.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/math.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// In the kernel on whole rows of k.
template <class Config>
LSSAR_DEVICE void reset_tickets(const AttentionParams& params) {
  if constexpr (Config::kTakesTickets) {
    if (block_index() == 0 && thread_index() == 0) store_global_4(params.tickets, 0);
  }
}

// What the counter says before a work tile's loads, and after them, which work tile that means: the
// one after `index`, past the last one where there is none left. NOTE: nothing is computed from the
// number in between, so that no load waits for it to come. Without keys the kernel that resets the
// counter has no rows to run for, and the tiles are dealt out in turns.
template <class Config>
LSSAR_DEVICE u32 take_ticket(const AttentionParams& params) {
  u32 ticket = 0;
  if (seq_k<Config>(params) != 0) ticket = add_relaxed(params.tickets, 1);
  return ticket;
}
template <class Config>
LSSAR_DEVICE u32 ticket_tile(const AttentionParams& params, u32 index, u32 ticket) {
  pin_register(ticket);
  return grid_blocks() + (seq_k<Config>(params) == 0 ? index : ticket);
}

}  // namespace lssar_device
