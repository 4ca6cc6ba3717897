#include "runtime/virtual/memory_map.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace lssar::vdev {
namespace {
constexpr size_t kAlignment = 256;
// Bytes between allocations, so that running past the end of one never lands in another.
constexpr size_t kGuardBytes = 256;
constexpr size_t kMaxBytes = size_t{1} << 39;  // of an allocation; also what sanitizers accept
}  // namespace

const RangeTable::Range* RangeTable::find(uint64_t address, uint64_t bytes) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](uint64_t a, const Range& r) { return a < r.begin; });
  if (after == ranges_.begin()) return nullptr;
  const Range& range = *std::prev(after);
  const uint64_t offset = address - range.begin;
  return offset < range.bytes && range.bytes - offset >= bytes ? &range : nullptr;
}

MemoryMap::~MemoryMap() {
  for (const auto& [address, bytes] : allocated_) std::free(reinterpret_cast<void*>(address));
}

Result<uint64_t> MemoryMap::allocate(size_t bytes) {
  if (bytes == 0) return uint64_t{0};
  void* memory = nullptr;
  if (bytes <= kMaxBytes) {
    const size_t padded = (bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
    memory = std::aligned_alloc(kAlignment, padded);
  }
  if (memory == nullptr) {
    return out_of_memory(fmt::format("virtual device: {} bytes could not be allocated", bytes));
  }
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uint64_t>(memory);
  allocated_[address] = bytes;
  table_.reset();
  return address;
}

Status MemoryMap::free(uint64_t address) {
  if (address == 0) return {};
  const std::lock_guard lock(mutex_);
  if (allocated_.erase(address) == 0) {
    return invalid_argument(
        fmt::format("virtual device: free({:#x}): not an address that allocate gave", address));
  }
  std::free(reinterpret_cast<void*>(address));
  table_.reset();
  return {};
}

Status MemoryMap::import_range(uint64_t address, size_t bytes) {
  if (bytes == 0) return {};
  if (address == 0 || address + bytes < address) {
    return invalid_argument(
        fmt::format("virtual device: import_range({:#x}, {}): not a range", address, bytes));
  }
  const std::lock_guard lock(mutex_);
  if (++imported_[{address, bytes}] == 1) table_.reset();
  return {};
}

void MemoryMap::release_range(uint64_t address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = imported_.find({address, bytes});
  if (found == imported_.end() || --found->second > 0) return;
  imported_.erase(found);
  table_.reset();
}

std::shared_ptr<const RangeTable> MemoryMap::snapshot() {
  const std::lock_guard lock(mutex_);
  if (table_) return table_;
  std::vector<RangeTable::Range> ranges;
  for (const auto& [address, bytes] : allocated_) ranges.push_back({address, bytes});
  for (const auto& [range, uses] : imported_) ranges.push_back({range.first, range.second});
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& x, const auto& y) { return x.begin < y.begin; });
  std::vector<RangeTable::Range> merged;
  for (const RangeTable::Range& r : ranges) {
    if (!merged.empty() && r.begin - merged.back().begin <= merged.back().bytes) {
      RangeTable::Range& last = merged.back();
      last.bytes = std::max(last.bytes, r.begin - last.begin + r.bytes);
    } else {
      merged.push_back(r);
    }
  }
  table_ = std::make_shared<const RangeTable>(std::move(merged));
  return table_;
}

}  // namespace lssar::vdev
