// mbarrier objects of a cluster. Their state lives here, not in the shared memory they occupy. The
// strict mode reports an ordinary write to that memory.
//
// A phase completes when all the arrivals that the barrier was initialised with have come, and as
// many bytes have arrived as were expected. See PTX ISA, "Phase of the mbarrier object".
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "virtual/state/vector_clock.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

inline constexpr uint32_t kMaxMbarrierCount = (1u << 20) - 1;
inline constexpr int64_t kMaxTransactions = (1 << 20) - 1;  // allowed are -this to this

struct Mbarrier {
  Cta* cta = nullptr;    // the block in whose shared memory it is
  uint32_t address = 0;  // in that memory
  uint32_t expected = 0;
  uint32_t pending = 0;      // arrivals that have not come yet
  int64_t transactions = 0;  // bytes expected less bytes arrived
  uint32_t phase = 0;        // phases completed so far
  uint32_t agent = 0;        // strict: the agent of the operations that complete on it
  uint32_t first_time = 0;   // strict: the time of those in phase 0
  const Op* init = nullptr;  // the instruction that initialised it
  SyncClock initialised;     // strict: by whom and when
  bool fenced = false;       // strict: the async proxy sees the initialisation
  uint32_t init_thread = 0;  // agent * 32 + lane
  SyncClock arriving;        // strict: what the threads that came in this phase had seen
  SyncClock completed;       // strict: what the threads that came in earlier phases had seen
  VectorClock made;          // strict: operations of other blocks on it, in this phase
  VectorClock made_before;   // strict: the same, in earlier phases
};

class MbarrierTable {
 public:
  void clear() { table_.clear(); }
  // Null: there is no barrier at that address.
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

}  // namespace lssar::vdev
