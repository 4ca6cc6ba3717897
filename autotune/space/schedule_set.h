// ScheduleSet: which schedules were there before, numbered as they came. A search asks it of every
// candidate, and a set with a node for each would take longer than all the rules.
//
// Schedules are kept packed: pages that are written for the first time cost more than the packing.
// Used by enumerate.cpp and by what places records among candidates. Threads: one at a time.
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
  // Whether it was not there. Schedules are numbered in the order of their first insertion.
  // REQUIRES: it is legal for some problem: its numbers fit in 16 bits.
  bool insert(const Schedule& schedule);
  std::optional<size_t> find(const Schedule& schedule) const;
  size_t size() const { return packed_.size(); }

 private:
  using Packed = std::array<uint64_t, 6>;
  static Packed pack(const Schedule& schedule);
  static uint32_t hash_of(const Packed& packed);

  // The slot where the schedule is, or where it belongs. The table has free slots.
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
