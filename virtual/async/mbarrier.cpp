#include "virtual/async/mbarrier.h"

#include <fmt/format.h>

#include "virtual/async/async_engine.h"
#include "virtual/check/checker.h"
#include "virtual/count/block_recorder.h"
#include "virtual/state/cluster.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kBytes = 8;

// Lanes of `mask` whose address is that of its lowest lane.
uint32_t same_address(const GenericOperands& in, uint32_t n, uint32_t mask) {
  const uint64_t address = in.address(n, lowest_bit(mask));
  uint32_t same = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    if (in.address(n, lane) == address) same |= 1u << lane;
  }
  return same;
}

bool complete_phase(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return false;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.completed.join(barrier.arriving);
  barrier.arriving.clear();
  if (Checker* checker = barrier.cta->cluster->checker) checker->phase_completed(barrier);
  barrier.cta->cluster->note_event();
  return true;
}

void arrive_once(Warp& warp, const Op& op, Mbarrier& barrier, uint32_t count) {
  if (count == 0 || count > kMaxMbarrierCount) {
    raise_fault(
        warp, op,
        fmt::format("a count of {}: allowed are 1 to {}", count, kMaxMbarrierCount).c_str());
  }
  if (count > barrier.pending) {
    raise_fault(
        warp, op,
        fmt::format("{} arrivals at mbarrier {:#x}, which expects {} more in "
                    "phase {} (its count is {})",
                    count, barrier.address, barrier.pending, barrier.phase, barrier.expected)
            .c_str());
  }
  if (BlockRecorder* recorder = cluster_of(warp).recorder) recorder->arrived(warp, op, barrier);
  barrier.pending -= count;
  cluster_of(warp).note_event();
  complete_phase(barrier);
}

// The lowest lanes of the mask, as many as there are arrivals left in the barrier's phase.
uint32_t lanes_of_phase(const Mbarrier& barrier, uint32_t lanes) {
  uint32_t rest = lanes;
  for (uint32_t n = 0; n < barrier.pending && rest != 0; ++n) rest &= rest - 1;
  return rest == lanes ? lanes : lanes & ~rest;
}

// Calls f(lane, barrier) for every lane, and hands what the lanes have seen to the barrier.
template <class F>
void for_each_arrival(Warp& warp, const Op& op, uint32_t address_operand, F f) {
  const GenericOperands in(warp, op);
  Checker* checker = (op.flags & kGenericRelaxed) != 0 ? nullptr : cluster_of(warp).checker;
  for (uint32_t rest = warp.mask; rest != 0;) {
    const uint32_t lanes = same_address(in, address_operand, rest);
    const uint64_t address = in.address(address_operand, lowest_bit(lanes));
    Mbarrier& barrier = require_mbarrier(warp, op, lowest_bit(lanes), address, lanes);
    const uint32_t now = lanes_of_phase(barrier, lanes);
    rest &= ~now;
    if (checker != nullptr) checker->release(warp, now, barrier.arriving);
    for (uint32_t m = now; m != 0; m &= m - 1) f(lowest_bit(m), barrier);
  }
}

template <class Done>
void wait(Warp& warp, const Op& op, bool may_fail, Done done) {
  const GenericOperands in(warp, op);
  Cluster& cluster = cluster_of(warp);
  uint32_t complete = 0;
  for (uint32_t rest = warp.mask; rest != 0;) {
    const uint32_t lanes = same_address(in, 1, rest);
    rest &= ~lanes;
    Mbarrier& barrier =
        require_mbarrier(warp, op, lowest_bit(lanes), in.address(1, lowest_bit(lanes)), lanes);
    uint32_t here = 0;
    for (uint32_t m = lanes; m != 0; m &= m - 1) {
      if (done(lowest_bit(m), barrier)) here |= 1u << lowest_bit(m);
    }
    if (here != 0 && may_fail && cluster.launch.seed != 0 && cluster.random.below(8) == 0) {
      here = 0;
      cluster.note_event();
    } else if (here == 0 && cluster.launch.timing == AsyncTiming::kLatest) {
      // As late as possible: after a lane has found the phase incomplete.
      if (cluster.async->finish_for(barrier)) cluster.note_event();
    }
    complete |= here;
    if (BlockRecorder* recorder = cluster.recorder)
      recorder->waited(warp, op, barrier, here != 0 ? here : lanes, here != 0);
    Checker* checker = cluster.checker;
    if (here != 0 && checker != nullptr && (op.flags & kGenericRelaxed) == 0) {
      checker->acquire(warp, here, barrier.completed);
      checker->saw_phase(warp, barrier);
    }
  }
  in.set_mask(0, warp.mask, complete);
  if ((warp.mask & ~complete) != 0) poll_failed(warp, op, warp.mask & ~complete);
}

bool state_done(Warp& warp, const Op& op, const Mbarrier& barrier, uint64_t state) {
  if (state > barrier.phase || state + 1 < barrier.phase) {
    raise_fault(warp, op,
                fmt::format("a state of phase {}, but mbarrier {:#x} is in phase {}: only "
                            "the current and the one before can be waited for",
                            state, barrier.address, barrier.phase)
                    .c_str());
  }
  return state < barrier.phase;
}

bool parity_done(Warp& warp, const Op& op, const Mbarrier& barrier, uint32_t parity) {
  if (parity > 1) raise_fault(warp, op, "the parity of a phase is 0 or 1");
  return (barrier.phase & 1) != parity;
}

}  // namespace

Mbarrier& require_mbarrier(Warp& warp, const Op& op, uint32_t lane, uint64_t address,
                           uint32_t lanes) {
  const SharedPlace place = locate_shared(warp, op, lane, address, kBytes, kBytes);
  Cluster& cluster = cluster_of(warp);
  Mbarrier* barrier = cluster.mbarriers->find(place.rank, place.address);
  if (barrier == nullptr) {
    raise_fault(warp, op,
                fmt::format("lane {}: no mbarrier was initialised at shared address {:#x}"
                            " of block {} of the cluster",
                            lane, place.address, place.rank)
                    .c_str());
  }
  if (Checker* checker = cluster.checker) {
    checker->use_mbarrier(warp, op, lanes == 0 ? 1u << lane : lanes, *barrier);
  }
  return *barrier;
}

void add_transactions(Warp& warp, const Op& op, Mbarrier& barrier, int64_t arrived) {
  const int64_t now = barrier.transactions - arrived;
  if (now > kMaxTransactions || now < -kMaxTransactions) {
    raise_fault(warp, op,
                fmt::format("{} bytes are outstanding at mbarrier {:#x}: the limit is {}", now,
                            barrier.address, kMaxTransactions)
                    .c_str());
  }
  barrier.transactions = now;
  cluster_of(warp).note_event();
  complete_phase(barrier);
}

void complete_transactions(Mbarrier& barrier, int64_t arrived) {
  barrier.transactions -= arrived;
  barrier.cta->cluster->note_event();
  complete_phase(barrier);
}

void arrive_later(Warp& warp, const Op& op, Mbarrier& barrier) {
  arrive_once(warp, op, barrier, 1);
}

void mbarrier_init(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  Cluster& cluster = cluster_of(warp);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    const SharedPlace place = locate_shared(warp, op, lane, in.address(0, lane), kBytes, kBytes);
    const uint32_t count = in.value32(1, lane);
    if (count == 0 || count > kMaxMbarrierCount) {
      raise_fault(
          warp, op,
          fmt::format("a count of {}: allowed are 1 to {}", count, kMaxMbarrierCount).c_str());
    }
    if (cluster.mbarriers->find(place.rank, place.address) != nullptr) {
      raise_fault(warp, op,
                  fmt::format("lane {}: the mbarrier at shared address {:#x} is "
                              "initialised again without mbarrier.inval",
                              lane, place.address)
                      .c_str());
    }
    Mbarrier& barrier = cluster.mbarriers->create(place.rank, place.address);
    barrier.cta = &cluster.ctas[place.rank];
    barrier.address = place.address;
    barrier.expected = count;
    barrier.pending = count;
    barrier.init = &op;
    barrier.init_thread = warp.agent * kLanes + lane;
    if (Checker* checker = cluster.checker) checker->init_mbarrier(warp, op, lane, barrier);
  }
}

void mbarrier_inval(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  Cluster& cluster = cluster_of(warp);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    Mbarrier& barrier = require_mbarrier(warp, op, lane, in.address(0, lane));
    if (cluster.async->waits_for(barrier)) {
      raise_fault(warp, op,
                  fmt::format("lane {}: mbarrier {:#x} is invalidated while asynchronous "
                              "operations are to complete on it",
                              lane, barrier.address)
                      .c_str());
    }
    if (Checker* checker = cluster.checker) checker->inval_mbarrier(warp, op, lane, barrier);
    cluster.mbarriers->erase(barrier.cta->rank, barrier.address);
  }
}

void mbarrier_arrive(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for_each_arrival(warp, op, 1, [&](uint32_t lane, Mbarrier& barrier) {
    in.set64(0, lane, barrier.phase);
    arrive_once(warp, op, barrier, in.present(2) ? in.value32(2, lane) : 1);
  });
}

void mbarrier_arrive_drop(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for_each_arrival(warp, op, 1, [&](uint32_t lane, Mbarrier& barrier) {
    const uint32_t count = in.present(2) ? in.value32(2, lane) : 1;
    if (count > barrier.expected) raise_fault(warp, op, "more arrivals dropped than there are");
    in.set64(0, lane, barrier.phase);
    barrier.expected -= count;
    arrive_once(warp, op, barrier, count);
  });
}

void mbarrier_arrive_expect(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for_each_arrival(warp, op, 1, [&](uint32_t lane, Mbarrier& barrier) {
    in.set64(0, lane, barrier.phase);
    add_transactions(warp, op, barrier, -static_cast<int64_t>(in.value32(2, lane)));
    arrive_once(warp, op, barrier, 1);
  });
}

void mbarrier_expect(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    Mbarrier& barrier = require_mbarrier(warp, op, lane, in.address(0, lane));
    add_transactions(warp, op, barrier, -static_cast<int64_t>(in.value32(1, lane)));
  }
}

void mbarrier_complete(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const uint32_t lane = lowest_bit(m);
    Mbarrier& barrier = require_mbarrier(warp, op, lane, in.address(0, lane));
    add_transactions(warp, op, barrier, in.value32(1, lane));
  }
}

void mbarrier_test_state(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  wait(warp, op, false, [&](uint32_t lane, const Mbarrier& barrier) {
    return state_done(warp, op, barrier, in.value64(2, lane));
  });
}

void mbarrier_test_parity(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  wait(warp, op, false, [&](uint32_t lane, const Mbarrier& barrier) {
    return parity_done(warp, op, barrier, in.value32(2, lane));
  });
}

void mbarrier_try_state(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  wait(warp, op, true, [&](uint32_t lane, const Mbarrier& barrier) {
    return state_done(warp, op, barrier, in.value64(2, lane));
  });
}

void mbarrier_try_parity(Warp& warp, const Op& op) {
  const GenericOperands in(warp, op);
  wait(warp, op, true, [&](uint32_t lane, const Mbarrier& barrier) {
    return parity_done(warp, op, barrier, in.value32(2, lane));
  });
}

std::string describe_wait(const Mbarrier& barrier) {
  return fmt::format(
      "phase {} of mbarrier {:#x} of block {} of the cluster: {} of {} arrivals and "
      "{} bytes missing",
      barrier.phase, barrier.address, barrier.cta->rank, barrier.pending, barrier.expected,
      barrier.transactions);
}

}  // namespace lssar::vdev
