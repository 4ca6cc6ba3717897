// Instructions on mbarriers, and arrivals by asynchronous operations.
#pragma once

#include <cstdint>
#include <string>

#include "virtual/state/mbarrier_table.h"

namespace lssar::vdev {

// The barrier at a shared::cluster address, or a fault that names the use. The strict mode checks
// that the lane sees its initialisation. `lanes` use this address together.
Mbarrier& require_mbarrier(Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                           uint32_t lanes = 0);
// `arrived` bytes have arrived; a negative number is expected from now on. Faults beyond
// kMaxTransactions.
void add_transactions(Warp& warp, const Op& op, Mbarrier& barrier, int64_t arrived);
// Bytes of an asynchronous operation have arrived. Never faults, because the instruction was issued
// long before.
void complete_transactions(Mbarrier& barrier, int64_t arrived);
// One arrival by an operation of the warp, after the operation was issued.
void arrive_later(Warp& warp, const Op& op, Mbarrier& barrier);

// Handlers. Bind::kGeneric says where their operands are.
void mbarrier_init(Warp& warp, const Op& op);
void mbarrier_inval(Warp& warp, const Op& op);
void mbarrier_arrive(Warp& warp, const Op& op);         // _|state, [address] [, count]
void mbarrier_arrive_drop(Warp& warp, const Op& op);    // the same
void mbarrier_arrive_expect(Warp& warp, const Op& op);  // _|state, [address], bytes
void mbarrier_expect(Warp& warp, const Op& op);         // [address], bytes
void mbarrier_complete(Warp& warp, const Op& op);       // [address], bytes
void mbarrier_test_state(Warp& warp, const Op& op);     // p, [address], state
void mbarrier_test_parity(Warp& warp, const Op& op);    // p, [address], parity
void mbarrier_try_state(Warp& warp, const Op& op);      // p, [address], state [, time]
void mbarrier_try_parity(Warp& warp, const Op& op);     // p, [address], parity [, time]

// "phase 3 of mbarrier 0x40 of block 0: 1 of 2 arrivals and 4096 bytes missing", for reports.
std::string describe_wait(const Mbarrier& barrier);

}  // namespace lssar::vdev
