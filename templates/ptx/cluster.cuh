// Clusters: blocks that run at the same time and reach one another's shared memory (sm_90).
#pragma once

#include "templates/ptx/cluster_watch.cuh"
#include "templates/ptx/types.cuh"
#include "templates/ptx/wait_limit.cuh"

namespace lssar_device {

// Number of this block in its cluster. NOTE: volatile, so that it is read where it is used instead
// of kept in a register.
LSSAR_DEVICE int cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// The place of block `rank` of the cluster that is this block's `shared`.
LSSAR_DEVICE u32 in_block(u32 shared, int rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(shared), "r"(rank));
  return mapped;
}

// All threads of the cluster that have not ended.
LSSAR_DEVICE void cluster_barrier(u32 line = LSSAR_CALLER_LINE) {
  const ClusterWatch watch;
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  watch.wait(line);
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  watch.end();
}

// As mbarrier_arrive, at a barrier of any block (in_block). Who waits for it there may use
// mbarrier_wait. NOTE: no scope of the cluster on either side: an arrival would then wait for all
// the thread has written (MEMBAR.GPU), a wait would drop the L1 (CCTL.IVALL), which only those need
// who hand on what was written to global or, by stores, to another block's memory. It serves where
// reads have ended before the arrival and what follows the wait is a copy, whose bytes come after
// it was issued.
LSSAR_DEVICE void mbarrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

}  // namespace lssar_device
