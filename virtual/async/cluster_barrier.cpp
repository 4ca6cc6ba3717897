#include "virtual/async/cluster_barrier.h"

#include "virtual/check/checker.h"
#include "virtual/count/block_recorder.h"
#include "virtual/program/generic_layout.h"
#include "virtual/state/cluster.h"

namespace lssar::vdev {

void ClusterBarrier::reset() {
  lanes_.assign(cluster_.warps.size(), {0, 0});
  arrived_clock_.clear();
  passed_clock_.clear();
}

void ClusterBarrier::arrive(Warp& warp, const Op& op) {
  auto& [arrived, passing] = lanes_[warp.agent];
  if (((arrived | passing) & warp.mask) != 0) {
    raise_fault(warp, op, "a thread arrives at the cluster's barrier again without having waited");
  }
  arrived |= warp.mask;
  cluster_.note_event();
  if (cluster_.recorder != nullptr)
    cluster_.recorder->barrier_arrived(warp, op, kClusterBarrier, warp.mask);
  Checker* c = cluster_.checker;
  if (c != nullptr && (op.flags & kGenericRelaxed) == 0) {
    c->release(warp, warp.mask, arrived_clock_);
  } else if (c != nullptr) {
    arrived_clock_.join(c->init_fence(warp));
  }
  try_complete();
}

void ClusterBarrier::wait(Warp& warp, const Op& op) {
  auto& [arrived, passing] = lanes_[warp.agent];
  if ((warp.mask & ~(arrived | passing)) != 0) {
    raise_fault(warp, op, "a thread waits at the cluster's barrier without having arrived");
  }
  if ((warp.mask & ~passing) != 0) {
    block_on(warp, op);
    return;
  }
  passing &= ~warp.mask;
  if (cluster_.recorder != nullptr)
    cluster_.recorder->barrier_passed(warp, op, kClusterBarrier, warp.mask);
  if (Checker* c = cluster_.checker) c->acquire(warp, warp.mask, passed_clock_);
}

void ClusterBarrier::try_complete() {
  bool any = false;
  for (const Warp& warp : cluster_.warps) {
    if ((warp.live & ~lanes_[warp.agent][0]) != 0) return;
    any |= lanes_[warp.agent][0] != 0;
  }
  if (!any) return;
  for (auto& [arrived, passing] : lanes_) {
    passing = arrived;
    arrived = 0;
  }
  passed_clock_.join(arrived_clock_);
  arrived_clock_.clear();
  cluster_.note_event();
  if (cluster_.recorder != nullptr) cluster_.recorder->barrier_completed(0, kClusterBarrier);
}

}  // namespace lssar::vdev
