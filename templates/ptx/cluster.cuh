// Clusters: blocks that run at the same time and can access one another's shared memory (sm_90).
#pragma once

#include "templates/ptx/cluster_watch.cuh"
#include "templates/ptx/types.cuh"
#include "templates/ptx/wait_limit.cuh"

namespace lssar_device {

// The rank of this block in its cluster. NOTE: volatile, so that ptxas reads it at each use instead
// of keeping it in a register.
LSSAR_DEVICE int cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// Maps the address `shared` of this block to the same place in block `rank` of the cluster.
LSSAR_DEVICE u32 in_block(u32 shared, int rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(shared), "r"(rank));
  return mapped;
}

// A barrier of all threads of the cluster that have not ended.
LSSAR_DEVICE void cluster_barrier(u32 line = LSSAR_CALLER_LINE) {
  const ClusterWatch watch;
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  watch.wait(line);
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  watch.end();
}

// As mbarrier_arrive, but the barrier may be in any block of the cluster (in_block). Its block
// waits with mbarrier_wait. NOTE: neither side uses cluster scope. With it an arrival would wait
// for everything that the thread has written (MEMBAR.GPU), and a wait would invalidate the L1
// (CCTL.IVALL). Only code that passes on data written to global memory, or stored to another block,
// needs that. Here reads end before the arrival, and the wait is followed by a copy whose bytes
// arrive after it was issued.
LSSAR_DEVICE void mbarrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

}  // namespace lssar_device
