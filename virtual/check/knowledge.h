// What the lanes of a warp have seen: one clock for all lanes, and others for lanes that
// synchronised apart from the rest. Used by the checker.
//
// Once waited for, a cp.async is seen by the lane that issued it. Others see it only through a
// synchronisation with that lane.
#pragma once

#include <cstdint>
#include <vector>

#include "virtual/state/vector_clock.h"

namespace lssar::vdev {

class Knowledge {
 public:
  // The warp is agent `agent`, its cp.async copies are agent `copies`, and lane i has waited for
  // waited[i] groups of them. Times begin at `time`.
  void reset(uint32_t agent, uint32_t copies, const uint32_t* waited, uint32_t time);

  // The time that accesses carry now.
  uint32_t time() const { return time_; }
  uint32_t agent() const { return agent_; }
  // The whole warp has seen everything that the agent did before this time.
  uint32_t floor_of(uint32_t agent) const;
  // The same for what the async proxy sees too.
  uint32_t proxied_floor_of(uint32_t agent) const;
  // Changes whenever one of the two floors may change.
  uint32_t version() const { return version_; }

  // Whether each of the lanes has seen an access.
  bool covers(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const;
  // Whether the async proxy sees it too, if these lanes issue the operation. A fence of one of them
  // is enough.
  bool proxied(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const;

  // The lanes hand on what they have seen and done. `all`: no other lanes are left.
  void release(uint32_t lanes, bool all, SyncClock& into);
  // The same without advancing the time: what an asynchronous operation of the lane begins with.
  void snapshot(uint32_t lane, SyncClock& into) const;
  void acquire(uint32_t lanes, bool all, const SyncClock& from);
  // For an asynchronous agent: everything that it did before `floor` has completed. If `by_lane` is
  // not kWholeWarp, only what that lane issued has.
  void acquire_agent(uint32_t lanes, bool all, uint32_t agent, uint32_t floor, uint32_t by_lane);
  // For bar.warp.sync and the like.
  void synchronise(uint32_t lanes, bool all);
  // For fence.proxy.async.
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
  uint32_t floor_ = 1;  // the time of the last synchronisation of all lanes
  SyncClock common_;
  std::vector<Part> parts_;
};

}  // namespace lssar::vdev
