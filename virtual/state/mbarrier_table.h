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

}  // namespace lssar::vdev
