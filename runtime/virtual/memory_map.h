// The memory kernels may touch: what the virtual device allocated and what callers imported. Any
// thread may change it at any time; a launch works on a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace lssar::vdev {

// Disjoint ranges in rising order, adjacent or overlapping imports merged. Immutable.
class RangeTable {
 public:
  struct Range {
    uint64_t begin;
    uint64_t bytes;
  };
  explicit RangeTable(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}
  // The range that holds [address, address + bytes), or null.
  const Range* find(uint64_t address, uint64_t bytes) const;

 private:
  std::vector<Range> ranges_;
};

class MemoryMap {
 public:
  ~MemoryMap();

  Result<uint64_t> allocate(size_t bytes);
  // kInvalidArgument for an address that allocate() did not give.
  Status free(uint64_t address);
  Status import_range(uint64_t address, size_t bytes);
  void release_range(uint64_t address, size_t bytes);

  std::shared_ptr<const RangeTable> snapshot();

 private:
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> allocated_;                      // address -> bytes
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> imported_;  // (address, bytes) -> uses
  std::shared_ptr<const RangeTable> table_;                     // null: to be made
};

}  // namespace lssar::vdev
