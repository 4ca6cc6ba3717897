// ScheduleSet: a set of schedules, numbered in the order of insertion. A search looks up every
// candidate, and a set with a node for each would take longer than all the rules.
//
// Schedules are kept packed, because writing new pages costs more than packing. Used by
// enumerate.cpp and to place records among candidates. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/schedule.h"

namespace lssar {

class ScheduleSet {
 public:
  // Returns whether it is new. Schedules are numbered in the order of their first insertion.
  // REQUIRES: it is legal for some problem, so that its numbers fit in 16 bits.
  bool insert(const Schedule& schedule);
  std::optional<size_t> find(const Schedule& schedule) const;
  size_t size() const { return packed_.size(); }

 private:
  using Packed = std::array<uint64_t, 7>;
  static Packed pack(const Schedule& schedule);
  static uint32_t hash_of(const Packed& packed);

  // The slot that holds the schedule, or in which it belongs. The table always has free slots.
  size_t slot_of(const Packed& packed, uint32_t hash) const;
  void grow();

  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = kFree;
  };
  std::vector<Packed> packed_;
  std::vector<Slot> slots_;  // a power of two of them, or none
};

}  // namespace lssar
