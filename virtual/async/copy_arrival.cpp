#include "virtual/async/copy_arrival.h"

#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "virtual/async/async_engine.h"
#include "virtual/async/mbarrier.h"
#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"
#include "virtual/state/mbarrier_table.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kLargestCopy = 16;  // bytes; the usual one

// Delivers everything that the lane copied up to and including `group`. NOTE: in a group that is
// not committed yet, copies issued after the arrival are delivered with those before it.
void deliver_up_to(Warp& warp, uint32_t lane, uint32_t group) {
  AsyncQueue& queue = warp.async;
  uint32_t kept = 0;
  for (uint32_t n = 0; n < queue.size; ++n) {
    AsyncCopy& copy = queue.items[n];
    const uint32_t bit = 1u << lane;
    if ((copy.mask & bit) != 0 && copy.group[lane] <= group) {
      deliver_copy(warp, copy, bit);
      copy.mask &= ~bit;
    }
    if (copy.mask == 0) continue;
    if (kept != n) queue.items[kept] = copy;
    ++kept;
  }
  queue.size = kept;
}

// One lane's arrival.
class CopyArrival final : public AsyncOperation {
 public:
  CopyArrival(Warp& warp, const Op& arrival, uint32_t lane)
      : warp_(warp), lane_(lane), group_(warp.async.commits[lane]) {
    op = &arrival;
  }

  void read() override {}
  void finish() override {
    deliver_up_to(warp_, lane_, group_);
    Cluster& cluster = cluster_of(warp_);
    if (Checker* checker = cluster.checker) {
      // A thread that waits sees the copies, and nothing else that the lane did.
      const auto copies = static_cast<uint32_t>(cluster.warps.size()) + warp_.agent;
      Seen seen;
      seen.last = checker->base_time() + group_;
      seen.lanes = 1u << lane_;
      barrier->arriving.seen[copies].join(seen);
    }
    arrive_later(warp_, *op, *barrier);
  }

 private:
  Warp& warp_;
  const uint32_t lane_;
  const uint32_t group_;
};

void arrive(Warp& warp, const Op& op, bool counted) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    Mbarrier& barrier = require_mbarrier(warp, op, lane, in.address(0, lane));
    if (barrier.cta != warp.cta) {
      raise_fault(warp, op,
                  fmt::format("lane {}: the mbarrier is of block {} of the cluster, not of its own",
                              lane, barrier.cta->rank)
                      .c_str());
    }
    if (!counted) {
      if (barrier.pending == kMaxMbarrierCount) {
        raise_fault(warp, op,
                    fmt::format("lane {}: mbarrier {:#x} expects {} arrivals, which is the limit",
                                lane, barrier.address, barrier.pending)
                        .c_str());
      }
      ++barrier.pending;
    }
    auto arrival = std::make_unique<CopyArrival>(warp, op, lane);
    arrival->barrier = &barrier;
    cluster_of(warp).async->issue(std::move(arrival));
  }
}

}  // namespace

void deliver_copy(Warp& warp, const AsyncCopy& copy, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    uint8_t* const target = copy.target[lane];
    const uint32_t read = copy.source_bytes[lane];
    if (read == kLargestCopy) {
      std::memcpy(target, copy.source[lane], kLargestCopy);
    } else {
      if (read != 0) std::memcpy(target, copy.source[lane], read);
      std::memset(target + read, 0, copy.bytes - read);
    }
    if (warp.checks != nullptr) check_delivered(warp, target, copy.bytes);
  }
}

void copy_arrive(Warp& warp, const Op& op) { arrive(warp, op, false); }
void copy_arrive_noinc(Warp& warp, const Op& op) { arrive(warp, op, true); }

}  // namespace lssar::vdev
