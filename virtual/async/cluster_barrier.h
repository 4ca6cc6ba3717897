// barrier.cluster: every thread of a cluster arrives, then waits until all that live have arrived.
// Used by the thread that runs the cluster.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "virtual/state/vector_clock.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

struct Cluster;

class ClusterBarrier {
 public:
  explicit ClusterBarrier(Cluster& cluster) : cluster_(cluster) {}

  // Before the cluster runs.
  void reset();
  // The warp's active lanes. A lane that arrives twice, or waits without having arrived, faults.
  void arrive(Warp& warp, const Op& op);
  void wait(Warp& warp, const Op& op);
  // Lets all pass where every lane that lives has arrived: to be called when lanes have exited.
  void try_complete();

 private:
  Cluster& cluster_;
  std::vector<std::array<uint32_t, 2>> lanes_;  // by warp: arrived; may pass
  SyncClock arrived_clock_;                     // what those that have arrived had seen
  SyncClock passed_clock_;                      // what those that pass have seen
};

}  // namespace lssar::vdev
