// Small correct kernels of several blocks that work together, as hopper_patterns.cu: a report on
// any of them is a false alarm.
#include "hopper_wgmma.cuh"

constexpr u32 kTile = 64;
constexpr u32 kTileBytes = kTile * 128;
constexpr u32 kStages = 2;

DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DEVICE u32 cluster_size() {
  u32 size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
// The same place of shared memory in another block of the cluster.
DEVICE u32 in_block(u32 address, u32 rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
DEVICE void mbarrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}
DEVICE void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
DEVICE void tma_load_multicast(u32 target, const TensorMap& map, u32 barrier, u16 blocks,
                               int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(target),
      "l"(&map), "r"(barrier), "h"(blocks), "r"(column), "r"(row)
      : "memory");
}

// o [128, 64] = a [128, 64 tiles] b [64, 64 tiles]^T in clusters of two blocks of 160 threads. A
// block has 64 rows of a. Both need all of b: each loads half of every tile and sends it to both,
// so a stage is empty when the consumers of both blocks have released it. Maps of boxes of 64
// columns by 64 rows (a), 32 rows (b). Shared memory: a [2], b [2], full [2], empty [2].
extern "C" __global__ void __launch_bounds__(160) __cluster_dims__(2, 1, 1)
    multicast_gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                   float* o, int tiles) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, rank = cluster_rank();
  const u32 a_base = base, b_base = base + kStages * kTileBytes;
  const u32 full = base + 2 * kStages * kTileBytes, empty = full + 8 * kStages;
  const u32 first_row = blockIdx.x * kTile;
  if (thread == 0) {
    for (u32 stage = 0; stage < kStages; ++stage) {
      mbarrier_init(full + 8 * stage, 1);
      mbarrier_init(empty + 8 * stage, 2);
    }
    fence_mbarrier_init();
  }
  cluster_barrier();
  if (thread >= 128) {
    if (elect()) {
      for (int tile = 0; tile < tiles; ++tile) {
        const u32 stage = tile % kStages, parity = (tile / kStages) & 1;
        const u32 half = rank * kTileBytes / 2;
        mbarrier_wait_cluster(empty + 8 * stage, parity ^ 1);
        mbarrier_arrive_expect(full + 8 * stage, 2 * kTileBytes);
        tma_load(a_base + stage * kTileBytes, a, full + 8 * stage, tile * kTile, first_row);
        tma_load_multicast(b_base + stage * kTileBytes + half, b, full + 8 * stage, 3, tile * kTile,
                           rank * 32);
      }
    }
  } else {
    float acc[32];
    for (int tile = 0; tile < tiles; ++tile) {
      const u32 stage = tile % kStages, parity = (tile / kStages) & 1;
      mbarrier_wait_cluster(full + 8 * stage, parity);
      wgmma_fence();
#pragma unroll
      for (u32 step = 0; step < 4; ++step) {
        wgmma_shared<0>(acc, tile_descriptor(a_base + stage * kTileBytes) + step * kNextKMajor,
                        tile_descriptor(b_base + stage * kTileBytes) + step * kNextKMajor,
                        tile > 0 || step > 0);
      }
      wgmma_commit();
      wgmma_wait<0>(acc);
      if (thread < 2) mbarrier_arrive_cluster(in_block(empty + 8 * stage, thread));
    }
    const u32 lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const u32 row = first_row + thread / 32 * 16 + lane / 4 + 8 * ((i / 2) & 1);
      o[row * kTile + 8 * (i / 4) + 2 * (lane % 4) + (i & 1)] = acc[i];
    }
  }
  // Neither block may end while the other's copies and arrivals come here.
  cluster_barrier();
}

// sums [clusters, 128] of x [clusters, blocks of a cluster, 128]: through the shared memory of
// every block of the cluster.
extern "C" __global__ void __launch_bounds__(128) cluster_sum(const float* x, float* sums) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, size = cluster_size();
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(base + 4 * thread), "f"(x[blockIdx.x * 128 + thread])
               : "memory");
  cluster_barrier();
  if (cluster_rank() == 0) {
    float sum = 0;
    for (u32 rank = 0; rank < size; ++rank) {
      float value;
      asm volatile("ld.shared::cluster.f32 %0, [%1];"
                   : "=f"(value)
                   : "r"(in_block(base + 4 * thread, rank))
                   : "memory");
      sum += value;
    }
    sums[blockIdx.x / size * 128 + thread] = sum;
  }
  cluster_barrier();
}

// y [block] = x [other block of the cluster] of 128 words each, `rounds` times: sent by st.async,
// which counts its bytes at the receiver's barrier. A block says by a remote arrival that it has
// read.
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1)
    exchange(const u32* x, u32* y, int rounds) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, rank = cluster_rank();
  const u32 full = base + 512, empty = full + 8;
  if (thread == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(empty, 128);
    fence_mbarrier_init();
  }
  cluster_barrier();
  const u32 peer = rank ^ 1;
  for (int round = 0; round < rounds; ++round) {
    const u32 index = (round * gridDim.x + blockIdx.x) * 128 + thread;
    if (thread == 0) mbarrier_arrive_expect(full, 512);
    mbarrier_wait_cluster(empty, (round & 1) ^ 1);
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
            in_block(base + 4 * thread, peer)),
        "r"(x[index]), "r"(in_block(full, peer))
        : "memory");
    mbarrier_wait_cluster(full, round & 1);
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(base + 4 * thread) : "memory");
    mbarrier_arrive_cluster(in_block(empty, peer));
    y[index] = word;
  }
  cluster_barrier();
}

// *sum = the sum of x [blocks, 128]: every block adds its part, the last one adds the parts. The
// counter begins as 0.
template <bool kFences>
DEVICE void split_sum(const float* x, float* parts, u32* counter, float* sum) {
  const u32 thread = threadIdx.x, base = shared_address(dynamic_shared);
  parts[blockIdx.x * 128 + thread] = 2 * x[blockIdx.x * 128 + thread];
  if (kFences) __threadfence();
  block_barrier();
  if (thread == 0) {
    u32 before;
    if (kFences) {
      before = atomicAdd(counter, 1);
    } else {
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                   : "=r"(before)
                   : "l"(counter)
                   : "memory");
    }
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(base), "r"(before) : "memory");
  }
  block_barrier();
  u32 before;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(before) : "r"(base) : "memory");
  if (before + 1 != gridDim.x) return;
  if (kFences) __threadfence();
  float total = 0;
  for (u32 block = 0; block < gridDim.x; ++block) total += parts[block * 128 + thread];
  sum[thread] = total;
}
// By a fence on either side of a relaxed atomic, and by an atomic that releases and acquires.
extern "C" __global__ void __launch_bounds__(128)
    last_block_fences(const float* x, float* parts, u32* counter, float* sum) {
  split_sum<true>(x, parts, counter, sum);
}
extern "C" __global__ void __launch_bounds__(128)
    last_block_acquires(const float* x, float* parts, u32* counter, float* sum) {
  split_sum<false>(x, parts, counter, sum);
}
