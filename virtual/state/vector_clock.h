// What one part of a launch has seen of the others: the vector clocks of the strict mode.
//
// Agents are the warps of a cluster, and the mechanisms through which asynchronous operations
// complete: a warp group's wgmma groups, a barrier's transactions, a thread's bulk groups. Every
// access carries the time of its agent. A warp's time advances at each of its synchronisations.
// "Has seen" therefore means: everything before one time, and what some lanes did up to a later
// one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lssar::vdev {

// What was seen of one agent: all accesses before time `floor`, and those of `lanes` up to time
// `last`.
struct Seen {
  uint32_t floor = 0;
  uint32_t last = 0;
  uint32_t lanes = 0;

  // `lane` is 0 to 31, or kWholeWarp for an access of the warp as a whole.
  bool covers(uint32_t time, uint32_t lane) const {
    return time < floor || (time <= last && lane < 32 && ((lanes >> lane) & 1) != 0);
  }
  // NOTE: if lanes were seen up to different times, the later time counts for all of them. This may
  // miss a race between lanes of one warp that synchronise apart from each other; it never reports
  // a false one.
  void join(const Seen& other) {
    floor = std::max(floor, other.floor);
    if (other.last >= floor) {
      lanes = last >= floor ? lanes | other.lanes : other.lanes;
      last = std::max(last, other.last);
    }
  }
};
inline constexpr uint32_t kWholeWarp = 32;

class VectorClock {
 public:
  bool covers(uint32_t agent, uint32_t time, uint32_t lane) const {
    return agent < seen_.size() && seen_[agent].covers(time, lane);
  }
  Seen& operator[](uint32_t agent) {
    if (agent >= seen_.size()) seen_.resize(agent + 1);
    return seen_[agent];
  }
  void join(const VectorClock& other) {
    if (other.seen_.size() > seen_.size()) seen_.resize(other.seen_.size());
    for (size_t i = 0; i < other.seen_.size(); ++i) seen_[i].join(other.seen_[i]);
  }
  void clear() { seen_.clear(); }
  bool empty() const { return seen_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(seen_.size()); }
  const Seen* data() const { return seen_.data(); }

 private:
  std::vector<Seen> seen_;
};

// What a synchronisation hands on: what was seen, and how much of it the async proxy sees too.
struct SyncClock {
  VectorClock seen;
  VectorClock proxied;

  void join(const SyncClock& other) {
    seen.join(other.seen);
    proxied.join(other.proxied);
  }
  void clear() {
    seen.clear();
    proxied.clear();
  }
};

}  // namespace lssar::vdev
