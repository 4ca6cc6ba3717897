// mbarrier, bulk copies and tensor maps: see adversary.cuh.
#include "adversary.cuh"

constexpr u32 kBytes = 4096;  // of a tile: 32 rows of 32 words
constexpr u32 kWords = 1024;

DEVICE void copy_out(u32* out, u32 buffer, u32 thread, u32 threads) {
  for (u32 i = thread; i < kWords; i += threads) {
    u32 word;
    LOAD_SHARED(word, buffer + 4 * i, "read");
    out[i] = word;
  }
}

// One tile in.
KERNEL(bulk_in, 64) {
  const u32 base = shared_address(dynamic_shared), full = base + kBytes, thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  BLOCK_BARRIER("barrier_init");
  if (thread == 0) {
    MBARRIER_EXPECT(full, "4096", "expect");
    TMA_LOAD(base, &a.map_in, full, 0, 0, "load");
  }
  asm volatile("// @before ld.shared.u32 %0, [%1];" ::"r"(0), "r"(base + 4 * thread));
  MBARRIER_WAIT(full, 0, "wait");
  copy_out(a.out, base, thread, 64);
}

// Four tiles in, one after the other, through the same place. "fence_late" is as good as "fence".
KERNEL(bulk_phases, 64) {
  const u32 base = shared_address(dynamic_shared), full = base + kBytes, thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  BLOCK_BARRIER("barrier_init");
  u32 parity = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < 4; ++tile) {
    if (thread == 0) {
      asm volatile("// @fence_late fence.proxy.async.shared::cta;" ::: "memory");
      MBARRIER_EXPECT(full, "4096", "expect");
      TMA_LOAD(base, &a.map_in, full, 0, tile * 32, "load");
    }
    MBARRIER_WAIT(full, parity, "wait");
    asm volatile("xor.b32 %0, %0, 1; // @flip" : "+r"(parity));
    copy_out(a.out + tile * kWords, base, thread, 64);
    FENCE_PROXY("fence");
    BLOCK_BARRIER("barrier");
  }
}

// Two tiles out, one after the other, through the same place.
KERNEL(bulk_out, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
#pragma unroll 1
  for (u32 tile = 0; tile < 2; ++tile) {
    for (u32 i = thread; i < kWords; i += 64) {
      STORE_SHARED(base + 4 * i, a.in[tile * kWords + i], "write");
    }
    FENCE_PROXY("fence");
    BLOCK_BARRIER("barrier");
    if (thread == 0) {
      asm volatile("// @fence_late fence.proxy.async.shared::cta;" ::: "memory");
      TMA_STORE(&a.map_out, base, 0, tile * 32, "store");
      PLAIN("cp.async.bulk.commit_group", "commit");
      PLAIN("cp.async.bulk.wait_group.read 0", "wait");
    }
    BLOCK_BARRIER("barrier_reuse");
  }
}

// One tile out, then the thread that sent it reads it.
KERNEL(bulk_out_and_back, 32) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  for (u32 i = thread; i < kWords; i += 32) STORE_SHARED(base + 4 * i, a.in[i], "write");
  FENCE_PROXY("fence");
  WARP_BARRIER("barrier");
  if (thread == 0) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096; // @store" ::"l"(a.scratch),
        "r"(base)
        : "memory");
    PLAIN("cp.async.bulk.commit_group", "commit");
    PLAIN("cp.async.bulk.wait_group 0", "wait");
    for (u32 i = 0; i < kWords; ++i) {
      u32 word;
      LOAD_GLOBAL(word, a.scratch + i, "read");
      a.out[i] = word;
    }
  }
}

// A tile in where ordinary stores were before.
KERNEL(bulk_over_stores, 64) {
  const u32 base = shared_address(dynamic_shared), full = base + kBytes, thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  for (u32 i = thread; i < kWords; i += 64) STORE_SHARED(base + 4 * i, 0, "write");
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  if (thread == 0) {
    MBARRIER_EXPECT(full, "4096", "expect");
    TMA_LOAD(base, &a.map_in, full, 0, 0, "load");
  }
  MBARRIER_WAIT(full, 0, "wait");
  copy_out(a.out, base, thread, 64);
}

// A barrier that is made twice.
KERNEL(barrier_again, 32) {
  const u32 base = shared_address(dynamic_shared), full = base + kBytes, thread = threadIdx.x;
#pragma unroll 1
  for (u32 tile = 0; tile < 2; ++tile) {
    if (thread == 0) {
      MBARRIER_INIT(full, "1", "init");
      PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
      MBARRIER_EXPECT(full, "4096", "expect");
      TMA_LOAD(base, &a.map_in, full, 0, tile * 32, "load");
    }
    WARP_BARRIER("barrier_init");
    MBARRIER_WAIT(full, 0, "wait");
    copy_out(a.out + tile * kWords, base, thread, 32);
    FENCE_PROXY("fence");
    WARP_BARRIER("barrier");
    if (thread == 0) {
      asm volatile("mbarrier.inval.shared::cta.b64 [%0]; // @inval" ::"r"(full) : "memory");
    }
  }
}

// Six tiles through two stages: warp 0 brings them, warp 1 reads them; one lane of it releases a
// stage for all.
KERNEL(bulk_pipeline, 64) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  const u32 full = base + 2 * kBytes, empty = full + 16;
  if (thread == 0) {
    for (u32 stage = 0; stage < 2; ++stage) {
      MBARRIER_INIT(full + 8 * stage, "1", "init_full");
      MBARRIER_INIT(empty + 8 * stage, "1", "init_empty");
    }
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
  }
  BLOCK_BARRIER("barrier_init");
  u32 parity = 0, empty_parity;
  asm volatile("mov.u32 %0, 1; // @first_parity" : "=r"(empty_parity));
#pragma unroll 1
  for (u32 tile = 0; tile < 6; ++tile) {
    const u32 stage = tile & 1, buffer = base + stage * kBytes;
    if (thread == 0) {
      MBARRIER_WAIT(empty + 8 * stage, empty_parity, "wait_empty");
      MBARRIER_EXPECT(full + 8 * stage, "4096", "expect");
      TMA_LOAD(buffer, &a.map_in, full + 8 * stage, 0, tile * 32, "load");
    } else if (thread >= 32) {
      MBARRIER_WAIT(full + 8 * stage, parity, "wait_full");
      copy_out(a.out + tile * kWords, buffer, thread - 32, 32);
      FENCE_PROXY("fence");
      WARP_BARRIER("barrier");
      if (thread == 32) {
        MBARRIER_ARRIVE(empty + 8 * stage, "arrive");
        asm volatile("// @arrive_twice mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(
                         empty + 8 * stage)
                     : "memory");
      }
    }
    if (stage == 1) {
      asm volatile("xor.b32 %0, %0, 1; // @flip" : "+r"(parity));
      asm volatile("xor.b32 %0, %0, 1; // @flip_empty" : "+r"(empty_parity));
    }
  }
}

// A tile in through a map that the kernel copies to global memory first.
KERNEL(map_in_memory, 32) {
  const u32 base = shared_address(dynamic_shared), full = base + kBytes, thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
    u64 address;
    asm volatile("add.u64 %0, %1, 0; // @place" : "=l"(address) : "l"(a.scratch));
    for (u32 i = 0; i < 16; ++i) {
      asm volatile("st.global.u64 [%0], %1; // @write" ::"l"(address + 8 * i),
                   "l"(a.map_in.words[i])
                   : "memory");
    }
    PLAIN("fence.proxy.tensormap::generic.release.gpu", "release");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128; // @acquire" ::"l"(address)
                 : "memory");
    MBARRIER_EXPECT(full, "4096", "expect");
    TMA_LOAD(base, address, full, 0, 0, "load");
  }
  WARP_BARRIER("barrier_init");
  MBARRIER_WAIT(full, 0, "wait");
  copy_out(a.out, base, thread, 32);
}
