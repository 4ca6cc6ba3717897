// barrier.cluster: every thread of a cluster arrives, then waits until all live threads have
// arrived. Used by the thread that runs the cluster.
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

  // Call it before the cluster runs.
  void reset();
  // For the warp's active lanes. A lane that arrives twice, or waits without having arrived,
  // faults.
  void arrive(Warp& warp, const Op& op);
  void wait(Warp& warp, const Op& op);
  // Lets all pass if every live lane has arrived. Call it when lanes have exited.
  void try_complete();

 private:
  Cluster& cluster_;
  std::vector<std::array<uint32_t, 2>> lanes_;  // by warp: arrived; may pass
  SyncClock arrived_clock_;                     // what the lanes that have arrived had seen
  SyncClock passed_clock_;                      // what the lanes that pass have seen
};

}  // namespace lssar::vdev
