// mbarrier objects of a cluster. Their state lives here, not in the shared memory they occupy; an
// ordinary write to that memory is reported by the strict mode.
//
// A phase completes when as many arrivals as the barrier was initialised with have come and the
// bytes that were expected equal those that have arrived. PTX ISA, "Phase of the mbarrier object".
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "virtual/state/vector_clock.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

inline constexpr uint32_t kMaxMbarrierCount = (1u << 20) - 1;
inline constexpr int64_t kMaxTransactions = (1 << 20) - 1;  // either way from 0

struct Mbarrier {
  Cta* cta = nullptr;    // whose shared memory it is in
  uint32_t address = 0;  // there
  uint32_t expected = 0;
  uint32_t pending = 0;      // arrivals missing
  int64_t transactions = 0;  // bytes expected less bytes arrived
  uint32_t phase = 0;        // completed so far
  uint32_t agent = 0;        // strict: of the operations that complete on it
  uint32_t first_time = 0;   // strict: of those of phase 0
  const Op* init = nullptr;  // the instruction
  SyncClock initialised;     // strict: by whom and when
  bool fenced = false;       // strict: the async proxy sees that it was initialised
  uint32_t init_thread = 0;  // agent * 32 + lane
  SyncClock arriving;        // strict: seen by those that came in this phase
  SyncClock completed;       // strict: seen by those that came in earlier phases
  VectorClock made;          // strict: operations of other blocks on it, in this phase
  VectorClock made_before;   // strict: those of earlier phases
};

class MbarrierTable {
 public:
  void clear() { table_.clear(); }
  // Null: there is none.
  Mbarrier* find(uint32_t rank, uint32_t address);
  Mbarrier& create(uint32_t rank, uint32_t address);
  void erase(uint32_t rank, uint32_t address) { table_.erase(key(rank, address)); }
  auto begin() { return table_.begin(); }
  auto end() { return table_.end(); }

 private:
  static uint64_t key(uint32_t rank, uint32_t address) {
    return static_cast<uint64_t>(rank) << 32 | address;
  }
  std::unordered_map<uint64_t, std::unique_ptr<Mbarrier>> table_;
};

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
