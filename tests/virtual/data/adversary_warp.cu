// What the lanes of a warp do apart and the warp as one: see adversary.cuh.
#include "adversary.cuh"

DEVICE u32 read_row_word(u32 rows, u32 thread) {
  u32 word;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1]; // @read"
               : "=r"(word)
               : "r"(rows + 16 * (thread % 8))
               : "memory");
  return word;
}

// Two stages of 128 bytes. Every lane waits for each of them by itself, lane 0 after the others.
KERNEL(waits_apart, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  const u32 full = base + 256, others = full + 16;
  if (thread == 0) {
    for (u32 stage = 0; stage < 2; ++stage) MBARRIER_INIT(full + 8 * stage, "1", "init");
    MBARRIER_INIT(others, "32", "init_others");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  WARP_BARRIER("start");
  if (thread == 0) {
    for (u32 stage = 0; stage < 2; ++stage) {
      MBARRIER_EXPECT(full + 8 * stage, "128", "expect");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, "
          "[%2]; // @load" ::"r"(base + 128 * stage),
          "l"(a.in + 32 * stage), "r"(full + 8 * stage)
          : "memory");
    }
  }
#pragma unroll 1
  for (u32 stage = 0; stage < 2; ++stage) {
    if (thread != 0) {
      MBARRIER_WAIT(full + 8 * stage, 0, "wait");
    } else {
      MBARRIER_WAIT(full + 8 * stage, 0, "wait_first");
    }
    a.out[32 * stage + thread] = read_row_word(base + 128 * stage, thread);
    MBARRIER_ARRIVE(others, "arrive");
    if (thread == 0 && stage == 0) MBARRIER_WAIT(others, 0, "late");
  }
}

// Rows are read by the warp and written back where they were.
KERNEL(rows_back, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  STORE_SHARED(base + 4 * thread, a.in[thread], "write");
  WARP_BARRIER("barrier");
  const u32 word = read_row_word(base, thread);
  asm volatile("// @by_lane st.shared.u32 [%0], %1;" ::"r"(base + 4 * thread), "r"(word)
               : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1}; // @write_rows" ::"r"(
                   base + 16 * (thread % 8)),
               "r"(word)
               : "memory");
  WARP_BARRIER("barrier_after");
  u32 out;
  LOAD_SHARED(out, base + 4 * thread, "read_back");
  a.out[thread] = out;
}

// Every lane executes the tensor store of a tile, and reads what another one's would have written.
KERNEL(stores_together, 32) {
  constexpr u32 kWords = 1024;
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  for (u32 i = thread; i < kWords; i += 32) STORE_SHARED(base + 4 * i, a.in[i], "write");
  FENCE_PROXY("fence");
  WARP_BARRIER("barrier");
  asm volatile(
      "{\n"
      ".reg .b32 row;\n"
      "mov.u32 row, 0;\n"
      "// @apart and.b32 row, %%laneid, 1;\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {0, row}], [%1]; // @store\n"
      "}" ::"l"(&a.map_out),
      "r"(base)
      : "memory");
  PLAIN("cp.async.bulk.commit_group", "commit");
  PLAIN("cp.async.bulk.wait_group 0", "wait");
  for (u32 i = thread; i < kWords; i += 32) {
    u32 word;
    LOAD_GLOBAL(word, a.out + (i ^ 1), "read");
    STORE_GLOBAL(a.scratch + i, word, "keep");
  }
}

// Block 0 loads for both blocks of the cluster; each waits for its part and ends.
extern "C" __global__ void __launch_bounds__(32, 1) __cluster_dims__(2, 1, 1)
    multicast_and_end(const __grid_constant__ Arguments a) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, full = base + 1024;
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  PLAIN("barrier.cluster.arrive.release.aligned", "start_arrive");
  PLAIN("barrier.cluster.wait.acquire.aligned", "start_wait");
  if (thread == 0) MBARRIER_EXPECT(full, "1024", "expect");
  if (thread == 0 && rank == 0) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], 1024, [%2], %3; // @load" ::"r"(base),
        "l"(a.in), "r"(full), "h"(static_cast<u16>(3))
        : "memory");
  }
  MBARRIER_WAIT(full, 0, "wait");
  for (u32 i = thread; i < 128; i += 32) {
    u32 word;
    LOAD_SHARED(word, base + 4 * (rank * 128 + i), "read");
    a.out[rank * 128 + i] = word;
  }
}
