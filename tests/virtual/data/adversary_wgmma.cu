// wgmma and setmaxnreg: see adversary.cuh. Products are with the unit matrix.
#include "adversary.cuh"

constexpr u32 kTileBytes = 8192;  // 64 x 64 bf16
constexpr u32 kTileWords = 2048;
constexpr u32 kThreads = 128;

#define WGMMA_FENCE(mark) PLAIN("wgmma.fence.sync.aligned", mark)

// The unit matrix, K-major with the 128-byte swizzle.
DEVICE void store_unit(u32 target, u32 thread) {
  for (u32 i = thread; i < kTileWords; i += kThreads) {
    const u32 row = i / 32, column = i % 32 * 2;
    const u32 word = column == row ? 0x3f80u : column + 1 == row ? 0x3f800000u : 0u;
    STORE_SHARED(target + swizzled(row, column / 8) + column % 8 * 2, word, "write_unit");
  }
}
// A 64 x 64 accumulator tile as words of two bf16.
DEVICE void store_tile(u32* out, const float (&acc)[32], u32 thread) {
#pragma unroll
  for (u32 i = 0; i < 32; i += 2) {
    const u32 row = thread / 32 * 16 + thread % 32 / 4 + 8 * ((i / 2) & 1);
    out[row * 32 + 4 * (i / 4) + thread % 4] = pack_bf16(acc[i], acc[i + 1]);
  }
}
DEVICE void multiply(float (&acc)[32], u32 a, u32 b) {
#pragma unroll
  for (u32 step = 0; step < 4; ++step) {
    wgmma_shared<0>(acc, tile_descriptor(a) + step * kNextKMajor,
                    tile_descriptor(b) + step * kNextKMajor, step > 0);
  }
}
DEVICE void keep(float (&acc)[32]) {
#pragma unroll
  for (u32 i = 0; i < 32; ++i) asm volatile("" : "+f"(acc[i])::"memory");
}

// A tile by TMA, the other by stores, one product.
KERNEL(product, kThreads) {
  const u32 base = shared_address(dynamic_shared), full = base + 2 * kTileBytes;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
    MBARRIER_EXPECT(full, "8192", "expect");
    TMA_LOAD(base, &a.map_tile, full, 0, 0, "load");
  }
  store_unit(base + kTileBytes, thread);
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  asm volatile("// @fence_late fence.proxy.async.shared::cta;" ::: "memory");
  MBARRIER_WAIT(full, 0, "wait_load");
  float acc[32];
  WGMMA_FENCE("fence_registers");
  multiply(acc, base, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "commit");
  asm volatile("// @touch mov.f32 %0, 0f00000000;" : "+f"(acc[5]));
  asm volatile("// @peek st.shared.f32 [%0], %1;" ::"r"(full + 64), "f"(acc[5]) : "memory");
  asm volatile("// @clobber st.shared.u32 [%0], 0;" ::"r"(base + 4 * thread) : "memory");
  PLAIN("wgmma.wait_group.sync.aligned 0", "wait");
  keep(acc);
  store_tile(a.out, acc, thread);
}

// Two tiles through one place: the product that reads it is waited for before the next copy.
// "late" waits after it was issued.
KERNEL(product_phases, kThreads) {
  const u32 base = shared_address(dynamic_shared), full = base + 2 * kTileBytes;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
    MBARRIER_EXPECT(full, "8192", "expect");
    TMA_LOAD(base, &a.map_tile, full, 0, 0, "load");
  }
  store_unit(base + kTileBytes, thread);
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  float acc[32];
  MBARRIER_WAIT(full, 0, "wait_load");
  WGMMA_FENCE("fence_registers");
  multiply(acc, base, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "commit");
  PLAIN("wgmma.wait_group.sync.aligned 0", "wait");
  if (thread == 0) {
    MBARRIER_EXPECT(full, "8192", "second_expect");
    TMA_LOAD(base, &a.map_tile, full, 0, 64, "second_load");
  }
  PLAIN("// @late wgmma.wait_group.sync.aligned 0", "");
  keep(acc);
  store_tile(a.out, acc, thread);
  MBARRIER_WAIT(full, 1, "second_wait_load");
  WGMMA_FENCE("second_fence_registers");
  multiply(acc, base, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "second_commit");
  PLAIN("wgmma.wait_group.sync.aligned 0", "second_wait");
  keep(acc);
  store_tile(a.out + kTileWords, acc, thread);
}

// Two products in flight, the first waited for alone.
KERNEL(products_in_flight, kThreads) {
  const u32 base = shared_address(dynamic_shared), full = base + 3 * kTileBytes;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    MBARRIER_INIT(full, "1", "init");
    PLAIN("fence.mbarrier_init.release.cluster", "fence_init");
    MBARRIER_EXPECT(full, "16384", "expect");
    TMA_LOAD(base, &a.map_tile, full, 0, 0, "load");
    TMA_LOAD(base + 2 * kTileBytes, &a.map_tile, full, 0, 64, "second_load");
  }
  store_unit(base + kTileBytes, thread);
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  MBARRIER_WAIT(full, 0, "wait_load");
  float acc[32], second[32];
  WGMMA_FENCE("fence_registers");
  multiply(acc, base, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "commit");
  multiply(second, base + 2 * kTileBytes, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "second_commit");
  PLAIN("wgmma.wait_group.sync.aligned 1", "wait");
  keep(acc);
  store_tile(a.out, acc, thread);
  PLAIN("wgmma.wait_group.sync.aligned 0", "second_wait");
  keep(second);
  store_tile(a.out + kTileWords, second, thread);
}

// A in registers.
KERNEL(product_of_registers, kThreads) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, lane = thread % 32;
  store_unit(base, thread);
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  u32 rows[4][4];
  const u32* source = a.in + (thread / 32 * 16 + lane / 4) * 32 + lane % 4;
#pragma unroll
  for (u32 step = 0; step < 4; ++step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32* address = source + step * 8 + (i & 1) * 256 + (i >> 1) * 4;
      LOAD_GLOBAL(rows[step][i], address, "load");
    }
  }
  float acc[32];
  WGMMA_FENCE("fence_registers");
#pragma unroll
  for (u32 step = 0; step < 4; ++step) {
    wgmma_registers<0>(acc, rows[step], tile_descriptor(base) + step * kNextKMajor, step > 0);
  }
  PLAIN("wgmma.commit_group.sync.aligned", "commit");
  asm volatile("// @touch mov.u32 %0, 0;" ::"r"(rows[2][1]));
  asm volatile("// @peek st.shared.u32 [%0], %1;" ::"r"(base + kTileBytes), "r"(rows[2][1])
               : "memory");
  PLAIN("wgmma.wait_group.sync.aligned 0", "wait");
  keep(acc);
  store_tile(a.out, acc, thread);
}

// A through shared memory, written by the warp that reads it.
KERNEL(product_of_stored, kThreads) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x, lane = thread % 32;
  store_unit(base + kTileBytes, thread);
  FENCE_PROXY("fence");
  BLOCK_BARRIER("barrier");
  const u32 row = thread / 32 * 16;
  for (u32 i = lane; i < 16 * 32; i += 32) {
    const u32 word = a.in[(row + i / 32) * 32 + i % 32];
    STORE_SHARED(base + swizzled(row + i / 32, i % 32 / 4) + i % 4 * 4, word, "write");
  }
  FENCE_PROXY("fence_rows");
  WARP_BARRIER("barrier_rows");
  float acc[32];
  WGMMA_FENCE("fence_registers");
  multiply(acc, base, base + kTileBytes);
  PLAIN("wgmma.commit_group.sync.aligned", "commit");
  PLAIN("wgmma.wait_group.sync.aligned 0", "wait");
  keep(acc);
  store_tile(a.out, acc, thread);
}

// Three warp groups share their registers anew: 168 each at the start.
KERNEL(registers, 3 * kThreads) {
  const u32 thread = threadIdx.x;
  asm volatile(
      "{\n"
      ".reg .pred first, some;\n"
      "setp.lt.u32 first, %0, 128;\n"
      "setp.lt.u32 some, %0, 320;\n"
      "@!first bra MORE;\n"
      "setmaxnreg.dec.sync.aligned.u32 24; // @fewer\n"
      "bra.uni DONE;\n"
      "MORE:\n"
      "setmaxnreg.inc.sync.aligned.u32 240; // @more\n"
      "DONE:\n"
      "}" ::"r"(thread));
  a.out[thread] = a.in[thread];
}
