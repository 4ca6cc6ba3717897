// Clusters: blocks that run at the same time and reach one another's shared memory (sm_90).
#pragma once

#include "templates/ptx/types.cuh"

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
LSSAR_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// As mbarrier_arrive and mbarrier_wait, across the cluster: `barrier` of any block (in_block), and
// of this one.
LSSAR_DEVICE void mbarrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

LSSAR_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  u32 is_done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(is_done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (is_done == 0);
}

}  // namespace lssar_device
