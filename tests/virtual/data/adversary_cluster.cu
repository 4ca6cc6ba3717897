// Clusters of two blocks: see adversary.cuh.
#include "adversary.cuh"

constexpr u32 kWords = 1024;  // of a tile
constexpr u32 kBytes = 4096;

#define CLUSTER_KERNEL(name, threads)                                                \
  extern "C" __global__ void __launch_bounds__(threads, 1) __cluster_dims__(2, 1, 1) \
      name(const __grid_constant__ Arguments a)
#define CLUSTER_BARRIER(mark)                                      \
  PLAIN("barrier.cluster.arrive.release.aligned", mark "_arrive"); \
  PLAIN("barrier.cluster.wait.acquire.aligned", mark "_wait")

DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DEVICE u32 in_block(u32 address, u32 rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// A block reads what its peer wrote into its own shared memory.
CLUSTER_KERNEL(peer_read, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, rank = cluster_rank();
  STORE_SHARED(base + 4 * thread, a.in[rank * 64 + thread], "write");
  CLUSTER_BARRIER("start");
  u32 word;
  asm volatile("ld.shared::cluster.u32 %0, [%1]; // @read"
               : "=r"(word)
               : "r"(in_block(base + 4 * thread, rank ^ 1))
               : "memory");
  CLUSTER_BARRIER("end");
  a.out[(rank ^ 1) * 64 + thread] = word;
}

// A block writes into its peer's shared memory and says so by the peer's barrier.
CLUSTER_KERNEL(peer_write, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, rank = cluster_rank();
  const u32 full = base + 256;
  if (thread == 0) {
    MBARRIER_INIT(full, "64", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  CLUSTER_BARRIER("start");
  asm volatile(
      "st.shared::cluster.u32 [%0], %1; // @write" ::"r"(in_block(base + 4 * thread, rank ^ 1)),
      "r"(a.in[rank * 64 + thread])
      : "memory");
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0]; // @arrive" ::"r"(
                   in_block(full, rank ^ 1))
               : "memory");
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0; // @wait\n"
      "@!done bra AGAIN; // @wait_again\n"
      "}" ::"r"(full)
      : "memory");
  u32 word;
  LOAD_SHARED(word, base + 4 * (thread ^ 32), "read");
  a.out[(rank ^ 1) * 64 + (thread ^ 32)] = word;
  CLUSTER_BARRIER("end");
}

// Four tiles through two stages: each block brings one half of every tile to both blocks, and each
// writes one half of it. Warp 1 brings, warp 0 reads; a stage is empty when both blocks' readers
// have said so.
CLUSTER_KERNEL(multicast, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, rank = cluster_rank();
  const u32 full = base + 2 * kBytes, empty = full + 16, half = rank * (kBytes / 2);
  if (thread == 0) {
    for (u32 stage = 0; stage < 2; ++stage) {
      MBARRIER_INIT(full + 8 * stage, "1", "init_full");
      MBARRIER_INIT(empty + 8 * stage, "2", "init_empty");
    }
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  CLUSTER_BARRIER("start");
#pragma unroll 1
  for (u32 tile = 0; tile < 4; ++tile) {
    const u32 stage = tile & 1, parity = tile >> 1, buffer = base + stage * kBytes;
    if (thread == 32) {
      MBARRIER_WAIT(empty + 8 * stage, parity ^ 1, "wait_empty");
      MBARRIER_EXPECT(full + 8 * stage, "4096", "expect");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
          "[%0], [%1], 2048, [%2], %3; // @load" ::"r"(buffer + half),
          "l"(a.in + tile * kWords + half / 4), "r"(full + 8 * stage), "h"(static_cast<u16>(3))
          : "memory");
    } else if (thread < 32) {
      MBARRIER_WAIT(full + 8 * stage, parity, "wait_full");
      for (u32 i = thread; i < kWords; i += 32) {
        u32 word;
        LOAD_SHARED(word, buffer + 4 * i, "read");
        if (i / (kWords / 2) == rank) a.out[tile * kWords + i] = word;
      }
      FENCE_PROXY("fence");
      WARP_BARRIER("barrier");
      if (thread == 0) {
        asm volatile(
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0]; // @arrive_own" ::"r"(
                in_block(empty + 8 * stage, rank))
            : "memory");
        asm volatile(
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0]; // @arrive_peer" ::"r"(
                in_block(empty + 8 * stage, rank ^ 1))
            : "memory");
      }
    }
  }
  __syncwarp();
  CLUSTER_BARRIER("end");
}
