// What the lanes of a warp have seen: one clock for all of them, and others for lanes that
// synchronised apart from the rest. Used by the checker.
//
// A cp.async is seen, once waited for, by the lane that issued it, and by others only through a
// synchronisation of that lane.
#pragma once

#include <cstdint>
#include <vector>

#include "virtual/state/vector_clock.h"

namespace lssar::vdev {

class Knowledge {
 public:
  // Agent `agent`, whose cp.async copies are agent `copies`: of those lane i has waited for
  // waited[i] groups. Times begin at `time`.
  void reset(uint32_t agent, uint32_t copies, const uint32_t* waited, uint32_t time);

  // The time that accesses carry now.
  uint32_t time() const { return time_; }
  uint32_t agent() const { return agent_; }
  // A time below which the whole warp has seen everything of an agent.
  uint32_t floor_of(uint32_t agent) const;
  // The same of what the async proxy sees too.
  uint32_t proxied_floor_of(uint32_t agent) const;
  // Changes whenever one of the two may.
  uint32_t version() const { return version_; }

  // Whether each of the lanes has seen an access, together or apart.
  bool covers(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const;
  // Whether the async proxy sees it too, where these lanes issue the operation: one's fence is
  // enough.
  bool proxied(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const;

  // The lanes hand on what they have seen and done. `all`: they are all that are left.
  void release(uint32_t lanes, bool all, SyncClock& into);
  // Without advancing the time: what an asynchronous operation of the lane begins with.
  void snapshot(uint32_t lane, SyncClock& into) const;
  void acquire(uint32_t lanes, bool all, const SyncClock& from);
  // For an asynchronous agent: everything before `floor` has completed; with `by_lane` other than
  // kWholeWarp only what that lane issued.
  void acquire_agent(uint32_t lanes, bool all, uint32_t agent, uint32_t floor, uint32_t by_lane);
  // bar.warp.sync and the like.
  void synchronise(uint32_t lanes, bool all);
  // fence.proxy.async
  void fence_proxy(uint32_t lanes, bool all);

 private:
  struct Part {
    uint32_t lanes;
    SyncClock clock;
  };
  SyncClock& part(uint32_t lanes);
  void add_own(uint32_t lanes, bool all, VectorClock& into) const;

  uint32_t agent_ = 0;
  uint32_t copies_ = 0;
  const uint32_t* waited_ = nullptr;  // by lane
  uint32_t base_ = 1;                 // times of copies are base + group
  uint32_t synced_[32] = {};          // waited_ at the last synchronisation of all lanes
  uint32_t version_ = 0;
  uint32_t time_ = 1;
  uint32_t floor_ = 1;  // of the last synchronisation of all lanes
  SyncClock common_;
  std::vector<Part> parts_;
};

}  // namespace lssar::vdev
