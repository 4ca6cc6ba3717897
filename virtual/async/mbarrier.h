// Instructions on mbarriers, and arrivals that asynchronous operations bring.
#pragma once

#include <cstdint>
#include <string>

#include "virtual/state/mbarrier_table.h"

namespace lssar::vdev {

// The barrier at a shared::cluster address, or a fault that names the use. The strict mode checks
// that its initialisation is visible to the lane, or to `lanes`, which use this address together.
Mbarrier& require_mbarrier(Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                           uint32_t lanes = 0);
// Bytes that arrive (negative: that are expected). Faults beyond kMaxTransactions.
void add_transactions(Warp& warp, const Op& op, Mbarrier& barrier, int64_t arrived);
// Bytes of an asynchronous operation have arrived, long after it was issued: never faults.
void complete_transactions(Mbarrier& barrier, int64_t arrived);
// One arrival that an operation of the warp brings, after it was issued.
void arrive_later(Warp& warp, const Op& op, Mbarrier& barrier);

// Handlers; operands as Bind::kGeneric has them.
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
