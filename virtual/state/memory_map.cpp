#include "virtual/state/memory_map.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {
constexpr size_t kAlignment = 256;
// Bytes between allocations, so that running past the end of one never reaches another.
constexpr size_t kGuardBytes = 256;
constexpr uint64_t kMaxQuarantine = uint64_t{64} << 20;  // of freed memory
constexpr size_t kMaxBytes = size_t{1} << 39;  // of an allocation; sanitizers accept no more
}  // namespace

const RangeTable::Range* RangeTable::find(uint64_t address, uint64_t bytes) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](uint64_t a, const Range& r) { return a < r.begin; });
  if (after == ranges_.begin()) return nullptr;
  const Range& range = *std::prev(after);
  const uint64_t offset = address - range.begin;
  return offset < range.bytes && range.bytes - offset >= bytes ? &range : nullptr;
}

bool RangeTable::was_freed(uint64_t address) const {
  return std::any_of(freed_.begin(), freed_.end(), [address](const Range& r) {
    return address >= r.begin && address - r.begin < r.bytes;
  });
}

MemoryMap::~MemoryMap() {
  for (const auto& [address, a] : allocated_) std::free(reinterpret_cast<void*>(address));
  for (const RangeTable::Range& r : freed_) std::free(reinterpret_cast<void*>(r.begin));
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
  Allocation& a = allocated_[address];
  a.bytes = bytes;
  if (track_) {
    a.unwritten =
        std::make_shared<std::vector<uint8_t>>((bytes + kWordBytes - 1) / kWordBytes, uint8_t{1});
  }
  table_.reset();
  return address;
}

Status MemoryMap::free(uint64_t address) {
  if (address == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) {
    return invalid_argument(
        fmt::format("virtual device: free({:#x}): not an address that allocate gave", address));
  }
  freed_.push_back({address, found->second.bytes});
  freed_bytes_ += found->second.bytes;
  allocated_.erase(found);
  release_freed();
  table_.reset();
  return {};
}

void MemoryMap::release_freed() {
  const uint64_t keep = track_ ? kMaxQuarantine : 0;
  while (!freed_.empty() && freed_bytes_ > keep) {
    std::free(reinterpret_cast<void*>(freed_.front().begin));
    freed_bytes_ -= freed_.front().bytes;
    freed_.pop_front();
  }
}

void MemoryMap::note_written(uint64_t address, size_t bytes) {
  if (!track_ || bytes == 0) return;
  const std::lock_guard lock(mutex_);
  auto after = allocated_.upper_bound(address);
  if (after == allocated_.begin()) return;
  const auto& [begin, a] = *std::prev(after);
  const uint64_t offset = address - begin;
  if (offset >= a.bytes) return;
  const uint64_t end = std::min<uint64_t>(a.bytes, offset + bytes);
  std::fill(a.unwritten->begin() + static_cast<std::ptrdiff_t>(offset / kWordBytes),
            a.unwritten->begin() + static_cast<std::ptrdiff_t>((end + kWordBytes - 1) / kWordBytes),
            uint8_t{0});
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
  for (const auto& [address, a] : allocated_) ranges.push_back({address, a.bytes, a.unwritten});
  for (const auto& [range, uses] : imported_) ranges.push_back({range.first, range.second});
  // Ranges that begin at the same place are sorted by length, the longest first, and allocations
  // come before imports.
  std::stable_sort(ranges.begin(), ranges.end(), [](const auto& x, const auto& y) {
    return x.begin != y.begin ? x.begin < y.begin : x.bytes > y.bytes;
  });
  std::vector<RangeTable::Range> merged;
  for (const RangeTable::Range& r : ranges) {
    if (!merged.empty() && r.begin - merged.back().begin <= merged.back().bytes) {
      RangeTable::Range& last = merged.back();
      const uint64_t end = r.begin - last.begin + r.bytes;
      if (end > last.bytes) {  // writes are followed only within one allocation
        last.bytes = end;
        last.unwritten.reset();
      }
    } else {
      merged.push_back(r);
    }
  }
  table_ = std::make_shared<const RangeTable>(
      std::move(merged), std::vector<RangeTable::Range>(freed_.begin(), freed_.end()));
  return table_;
}

}  // namespace lssar::vdev
