// BlockRecorder: writes a KernelTrace while its block runs. Owned by the launch; used by the thread
// that runs the cluster, through Cluster::recorder.
#pragma once

#include <vector>

#include "virtual/count/block_trace.h"
#include "virtual/program/kernel_program.h"
#include "virtual/state/mbarrier_table.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

class BlockRecorder {
 public:
  BlockRecorder(const KernelProgram& program, uint64_t cluster, size_t max_events,
                KernelTrace* trace);

  uint64_t cluster() const { return cluster_; }

  // Lanes of `mask` executed ops [first, last) together. Call it after the events of these ops.
  void ran(const Warp& warp, uint32_t first, uint32_t last, uint32_t mask);

  void bulk(const Warp& warp, const Op& op, TraceKind kind, const Mbarrier* barrier,
            uint32_t address, uint32_t bytes);
  void arrived(const Warp& warp, const Op& op, const Mbarrier& barrier);
  // Lanes tested whether the barrier's phase before the current one is complete.
  void waited(const Warp& warp, const Op& op, const Mbarrier& barrier, uint32_t lanes, bool passed);

  // For barriers of a block, and kClusterBarrier.
  void barrier_arrived(const Warp& warp, const Op& op, uint32_t id, uint32_t lanes);
  void barrier_passed(const Warp& warp, const Op& op, uint32_t id, uint32_t lanes);
  void barrier_completed(uint32_t block, uint32_t id);

 private:
  void add(TraceEvent event);
  void add_barrier(const TraceEvent& event);
  uint32_t& generation(uint32_t block, uint32_t id);
  TraceEvent at(const Warp& warp, const Op& op, TraceKind kind, uint32_t lanes) const;

  const KernelProgram& program_;
  const uint64_t cluster_;
  const size_t max_events_;
  KernelTrace* const trace_;
  std::vector<TraceEvent> pending_;                 // of the instructions that run now
  std::vector<std::vector<uint32_t>> generations_;  // by block and barrier; then the cluster's
};

}  // namespace lssar::vdev
