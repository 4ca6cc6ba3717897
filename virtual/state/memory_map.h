// The memory that kernels may touch: what the virtual device allocated and what callers imported.
// Any thread may change it at any time; a launch works on a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace lssar::vdev {

// Disjoint ranges in rising order; adjacent or overlapping imports are merged. Immutable.
class RangeTable {
 public:
  struct Range {
    uint64_t begin;
    uint64_t bytes;
    // For each 4-byte word whether nobody has written it yet. Empty: not known. Threads write to it
    // while launches run.
    std::shared_ptr<std::vector<uint8_t>> unwritten = nullptr;
  };
  RangeTable(std::vector<Range> ranges, std::vector<Range> freed)
      : ranges_(std::move(ranges)), freed_(std::move(freed)) {}
  // The range that holds [address, address + bytes), or null.
  const Range* find(uint64_t address, uint64_t bytes) const;
  // Whether the address lies in memory that was freed.
  bool was_freed(uint64_t address) const;

 private:
  std::vector<Range> ranges_;
  std::vector<Range> freed_;
};

class MemoryMap {
 public:
  MemoryMap() = default;
  ~MemoryMap();
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  // From the next allocation on, follows which words are written. Freed memory is not allocated
  // again for a while, so that a use of it is seen.
  void follow_writes() { track_ = true; }

  Result<uint64_t> allocate(size_t bytes);
  // kInvalidArgument for an address that allocate() did not give.
  Status free(uint64_t address);
  Status import_range(uint64_t address, size_t bytes);
  void release_range(uint64_t address, size_t bytes);

  // The host wrote these bytes.
  void note_written(uint64_t address, size_t bytes);

  std::shared_ptr<const RangeTable> snapshot();

 private:
  struct Allocation {
    uint64_t bytes;
    std::shared_ptr<std::vector<uint8_t>> unwritten;
  };
  void release_freed();

  bool track_ = false;
  std::mutex mutex_;
  std::map<uint64_t, Allocation> allocated_;  // by address
  std::deque<RangeTable::Range> freed_;       // not given back yet, oldest first
  uint64_t freed_bytes_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> imported_;  // (address, bytes) -> uses
  std::shared_ptr<const RangeTable> table_;                     // null: to be made
};

}  // namespace lssar::vdev
