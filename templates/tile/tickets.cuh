// A block of a persistent grid draws its next work tile when it needs it.
//
// A block's first work tile has the number of the block. It draws further ones from a counter in
// global memory. The key norm kernel, which runs earlier on the same stream, sets the counter to 0.
// So every call, and every replay of a captured call, starts at 0. Concurrent calls have separate
// workspaces.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/math.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// Called by the key norm kernel.
LSSAR_DEVICE void reset_tickets(const AttentionParams& params) {
  if (block_index() == 0 && thread_index() == 0) store_global_4(params.tickets, 0);
}

// take_ticket draws before the loads of a work tile. ticket_tile then returns, after those loads,
// the work tile that follows `index`; past the last one there is none.
//
// NOTE: nothing uses the ticket in between, so no load waits for it. Without keys the kernel that
// resets the counter does not run, and tiles are assigned round-robin.
template <class Config>
LSSAR_DEVICE u32 take_ticket(const AttentionParams& params) {
  u32 ticket = 0;
  if (seq_k<Config>(params) != 0) ticket = add_relaxed(params.tickets, 1);
  return ticket;
}
template <class Config>
LSSAR_DEVICE u32 ticket_tile(const AttentionParams& params, u32 index, u32 ticket) {
  return grid_blocks() + (seq_k<Config>(params) == 0 ? index : ticket);
}

}  // namespace lssar_device
