#include "virtual/count/access_counters.h"

#include <algorithm>
#include <array>

#include "virtual/count/instruction_class.h"
#include "virtual/state/units.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kWavefrontBytes = 128;  // 32 banks of 4 bytes

// The addresses of lanes that access one state space.
struct LaneAddresses {
  std::array<uint64_t, kLanes> of;
  uint32_t mask;
};

void count_global(OpAccess& access, const LaneAddresses& lanes, uint32_t bytes) {
  std::array<uint64_t, kLanes> sectors;
  uint32_t active = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((lanes.mask >> i) & 1) sectors[active++] = lanes.of[i] / kSectorBytes;
  }
  auto* const end = sectors.begin() + active;
  if (!std::is_sorted(sectors.begin(), end)) std::sort(sectors.begin(), end);
  const auto touched = static_cast<uint64_t>(std::unique(sectors.begin(), end) - sectors.begin());
  const uint64_t asked = uint64_t{active} * bytes;
  const uint64_t filled = (asked + kSectorBytes - 1) / kSectorBytes;
  access.global_requests += 1;
  access.global_bytes += asked;
  access.global_sectors += touched;
  access.global_excess += touched > filled ? touched - filled : 0;
}

// Lanes whose accesses make 128 bytes share a pass. The pass is repeated until every bank has
// served all the words wanted of it. Lanes at the same word are served together, unless they are
// atomics.
uint32_t wavefronts_of(const LaneAddresses& lanes, uint32_t first, uint32_t count, uint32_t unit,
                       bool merge) {
  const uint32_t columns = kWavefrontBytes / unit;
  std::array<std::array<uint64_t, kLanes>, kLanes> wanted;  // by bank (group of banks): units
  std::array<uint32_t, kLanes> depth = {};
  uint32_t passes = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    if (((lanes.mask >> i) & 1) == 0) continue;
    const uint64_t at = lanes.of[i] / unit;
    const auto column = static_cast<uint32_t>(at % columns);
    auto* const begin = wanted[column].begin();
    if (merge && std::find(begin, begin + depth[column], at) != begin + depth[column]) continue;
    wanted[column][depth[column]++] = at;
    passes = std::max(passes, depth[column]);
  }
  return passes;
}

void count_shared(OpAccess& access, const LaneAddresses& lanes, uint32_t bytes, bool merge) {
  const uint32_t unit = std::clamp(bytes, kWordBytes, kWavefrontBytes);
  const uint32_t group = std::min(kLanes, kWavefrontBytes / unit);
  access.shared_requests += 1;
  access.shared_bytes += uint64_t{bytes} * static_cast<uint32_t>(__builtin_popcount(lanes.mask));
  for (uint32_t first = 0; first < kLanes; first += group) {
    const uint32_t passes = wavefronts_of(lanes, first, group, unit, merge);
    access.shared_wavefronts += passes;
    access.shared_ideal += passes != 0;
  }
}

}  // namespace

void count_access(const Warp& warp, const Op& op, StateSpace space, const uint64_t* addresses,
                  uint32_t bytes) {
  AccessCounters& counters = *warp.counters;
  const auto index = static_cast<size_t>(&op - counters.ops);
  const auto mode = static_cast<AccessMode>(counters.modes[index]);
  if (mode == AccessMode::kNone) return;
  LaneAddresses lanes;
  std::copy_n(addresses, kLanes, lanes.of.begin());
  uint32_t global = space == StateSpace::kGlobal ? warp.mask : 0;
  uint32_t shared = space == StateSpace::kShared ? warp.mask : 0;
  if (space == StateSpace::kGeneric) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint64_t window = addresses[i] >> kWindowShift << kWindowShift;
      global |= static_cast<uint32_t>(window == 0) << i;
      shared |= static_cast<uint32_t>(window == kSharedWindow) << i;
    }
    global &= warp.mask;
    shared &= warp.mask;
  }
  lanes.mask = global;
  if (global != 0) count_global(counters.by_op[index], lanes, bytes);
  lanes.mask = shared;
  if (shared != 0) {
    count_shared(counters.by_op[index], lanes, bytes, mode != AccessMode::kAtomic);
  }
}

void count_tma(AccessCounters* counters, TmaDirection direction, uint64_t bytes) {
  if (counters != nullptr) counters->tma_bytes[static_cast<int>(direction)] += bytes;
}

}  // namespace lssar::vdev
