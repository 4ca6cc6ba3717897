#include "virtual/check/knowledge.h"

#include <algorithm>

namespace lssar::vdev {
namespace {
constexpr size_t kMaxParts = 64;
}

void Knowledge::reset(uint32_t agent, uint32_t copies, const uint32_t* waited, uint32_t time) {
  agent_ = agent;
  copies_ = copies;
  waited_ = waited;
  base_ = time;
  std::fill(synced_, synced_ + 32, 0);
  time_ = time;
  floor_ = time;
  common_.clear();
  parts_.clear();
  ++version_;
}

uint32_t Knowledge::floor_of(uint32_t agent) const {
  const uint32_t floor = agent < common_.seen.size() ? common_.seen.data()[agent].floor : 0;
  return agent == agent_ ? std::max(floor, floor_) : floor;
}

uint32_t Knowledge::proxied_floor_of(uint32_t agent) const {
  return agent < common_.proxied.size() ? common_.proxied.data()[agent].floor : 0;
}

bool Knowledge::covers(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const {
  uint32_t rest = lanes;  // that have not
  if (agent == agent_) {
    if (time < floor_) return true;
    if (by_lane < 32) rest &= ~(1u << by_lane);
  }
  if (agent == copies_ && by_lane < 32) {
    if (time - base_ < synced_[by_lane]) return true;
    if (time - base_ < waited_[by_lane]) rest &= ~(1u << by_lane);
  }
  if (rest == 0 || common_.seen.covers(agent, time, by_lane)) return true;
  for (const Part& p : parts_) {
    if ((p.lanes & rest) != 0 && p.clock.seen.covers(agent, time, by_lane)) rest &= ~p.lanes;
  }
  return rest == 0;
}

bool Knowledge::proxied(uint32_t lanes, uint32_t agent, uint32_t time, uint32_t by_lane) const {
  if (common_.proxied.covers(agent, time, by_lane)) return true;
  for (const Part& p : parts_) {
    if ((p.lanes & lanes) != 0 && p.clock.proxied.covers(agent, time, by_lane)) return true;
  }
  return false;
}

// Adds what the lanes themselves did so far.
void Knowledge::add_own(uint32_t lanes, bool all, VectorClock& into) const {
  Seen own;
  own.floor = all ? time_ + 1 : floor_;
  own.last = all ? 0 : time_;
  own.lanes = all ? 0 : lanes;
  into[agent_].join(own);

  uint32_t waited = 0xffffffffu;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    waited = std::min(waited, waited_[__builtin_ctz(m)]);
  }
  if (waited == 0) return;
  Seen copies;
  copies.floor = all ? base_ + waited : *std::min_element(synced_, synced_ + 32) + base_;
  copies.last = all ? 0 : base_ + waited - 1;
  copies.lanes = all ? 0 : lanes;
  into[copies_].join(copies);
}

void Knowledge::release(uint32_t lanes, bool all, SyncClock& into) {
  into.join(common_);
  for (const Part& p : parts_) {
    if ((p.lanes & lanes) != 0) into.join(p.clock);
  }
  add_own(lanes, all, into.seen);
  ++time_;
}

void Knowledge::snapshot(uint32_t lane, SyncClock& into) const {
  into.join(common_);
  for (const Part& p : parts_) {
    if (((p.lanes >> lane) & 1) != 0) into.join(p.clock);
  }
  add_own(1u << lane, false, into.seen);
}

// The clock of exactly these lanes.
SyncClock& Knowledge::part(uint32_t lanes) {
  for (Part& p : parts_) {
    if (p.lanes == lanes) return p.clock;
  }
  if (parts_.size() == kMaxParts) {
    // Many separate groups of lanes are joined. This may miss a race but reports no false one.
    for (const Part& p : parts_) common_.join(p.clock);
    parts_.clear();
  }
  parts_.push_back({lanes, {}});
  return parts_.back().clock;
}

void Knowledge::acquire(uint32_t lanes, bool all, const SyncClock& from) {
  (all ? common_ : part(lanes)).join(from);
  ++version_;
}

void Knowledge::acquire_agent(uint32_t lanes, bool all, uint32_t agent, uint32_t floor,
                              uint32_t by_lane) {
  Seen seen;
  if (by_lane == kWholeWarp) {
    seen.floor = floor;
  } else {
    seen.last = floor - 1;
    seen.lanes = 1u << by_lane;
  }
  (all ? common_ : part(lanes)).seen[agent].join(seen);
  ++version_;
}

void Knowledge::synchronise(uint32_t lanes, bool all) {
  if (all) {
    for (const Part& p : parts_) common_.join(p.clock);
    parts_.clear();
    ++time_;
    floor_ = time_;
    std::copy(waited_, waited_ + 32, synced_);
    ++version_;
    return;
  }
  SyncClock clock;
  release(lanes, false, clock);
  part(lanes).join(clock);
}

void Knowledge::fence_proxy(uint32_t lanes, bool all) {
  if (all) {
    common_.proxied.join(common_.seen);
    for (Part& p : parts_) p.clock.proxied.join(p.clock.seen);
    add_own(lanes, true, common_.proxied);
  } else {
    SyncClock clock;
    for (uint32_t m = lanes; m != 0; m &= m - 1) {
      snapshot(static_cast<uint32_t>(__builtin_ctz(m)), clock);
    }
    SyncClock& own = part(lanes);
    own.proxied.join(clock.seen);
  }
  ++time_;
  ++version_;
}

}  // namespace lssar::vdev
