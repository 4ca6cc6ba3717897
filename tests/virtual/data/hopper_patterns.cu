// Small correct kernels, each a pattern of Hopper kernels that is easily taken for a bug: a report
// on any of them is a false alarm. Those of several blocks are in hopper_cluster.cu.
#include "hopper_wgmma.cuh"

constexpr u32 kTile = 64;
constexpr u32 kTileBytes = kTile * 128;  // bf16, one swizzled chunk

DEVICE u32 load_shared(u32 address) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
DEVICE void store_shared(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
DEVICE void bulk_load(u32 target, const void* source, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
DEVICE void bulk_store(void* target, u32 source, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target),
               "r"(source), "r"(bytes)
               : "memory");
}

// p [64, 64 tiles], v [64 tiles, 64] in bf16; o [64, 64] = p v in float. 128 threads. p goes
// through registers into shared memory and is the A operand from there: a warp reads the rows it
// wrote, so a warp's fence and barrier are enough. Shared memory: p, v [2], barriers [2].
extern "C" __global__ void __launch_bounds__(128)
    p_through_shared(const u32* p, const __grid_constant__ TensorMap v, float* o, int tiles) {
  const u32 base = shared_address(dynamic_shared), barriers = base + 3 * kTileBytes;
  const u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  if (thread == 0) {
    mbarrier_init(barriers, 1);
    mbarrier_init(barriers + 8, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(barriers, kTileBytes);
    tma_load(base + kTileBytes, v, barriers, 0, 0);
  }
  block_barrier();
  float acc[32];
  for (int tile = 0; tile < tiles; ++tile) {
    const u32 stage = tile & 1, next = stage ^ 1;
    if (thread == 0 && tile + 1 < tiles) {
      // The product that read this stage was waited for, by this warp as by every other.
      mbarrier_arrive_expect(barriers + 8 * next, kTileBytes);
      tma_load(base + kTileBytes + next * kTileBytes, v, barriers + 8 * next, 0,
               (tile + 1) * kTile);
    }
    const u32* source = p + (warp * 16 + lane / 4) * (32 * tiles) + tile * 32 + lane % 4;
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
      const u32 row_8 = 8 * 32 * tiles;
      const u32 matrices[4] = {source[step * 8], source[step * 8 + row_8], source[step * 8 + 4],
                               source[step * 8 + row_8 + 4]};
      store_matrices(base + swizzled(warp * 16 + lane % 16, step * 2 + lane / 16), matrices);
    }
    fence_proxy_async();
    warp_barrier();
    mbarrier_wait(barriers + 8 * stage, (tile >> 1) & 1);
    wgmma_fence();
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {
      wgmma_shared<1>(acc, tile_descriptor(base) + step * kNextKMajor,
                      tile_descriptor(base + kTileBytes + stage * kTileBytes) + step * kNextMnMajor,
                      tile > 0 || step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>(acc);
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const u32 row = warp * 16 + lane / 4 + 8 * ((i / 2) & 1), column = 8 * (i / 4) + 2 * (lane % 4);
    o[row * kTile + column + (i & 1)] = acc[i];
  }
}

// sum [tiles 64, 32] += x [blocks, tiles 64, 32], floats: fence, named barrier, and one thread adds
// the tile through a map (even tiles) or as 8192 bytes (odd tiles). 128 threads in a block.
extern "C" __global__ void __launch_bounds__(128)
    reduce_add(const float* x, const __grid_constant__ TensorMap map, float* sum, int tiles) {
  const u32 base = shared_address(dynamic_shared), thread = threadIdx.x;
  x += static_cast<u64>(blockIdx.x) * tiles * 2048;
  for (int tile = 0; tile < tiles; ++tile) {
    const u32 buffer = base + (tile & 1) * 8192;
    // The addition before the last has read its buffer, says the thread that issued it.
    if (thread == 0) bulk_wait_read<1>();
    named_barrier_sync(1, 128);
    for (u32 i = thread; i < 2048; i += 128) store_shared(buffer + 4 * i, x[tile * 2048 + i]);
    fence_proxy_async();
    named_barrier_sync(2, 128);
    if (thread == 0) {
      if (tile & 1) {
        asm volatile(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 8192;" ::"l"(
                sum + tile * 2048),
            "r"(buffer)
            : "memory");
      } else {
        asm volatile(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], "
            "[%1];" ::"l"(&map),
            "r"(buffer), "r"(0), "r"(tile * 64)
            : "memory");
      }
      bulk_commit();
    }
  }
  if (thread == 0) bulk_wait<0>();
}

// sums [64] of 32-bit words of x [tiles, 1024]: a producer warp copies tiles of 4 KiB into three
// stages, two consumer warps read them by ldmatrix: a fence before the arrival orders these reads
// before the producer's next copy. 96 threads.
extern "C" __global__ void __launch_bounds__(96) read_stages(const u32* x, u32* sums, int tiles) {
  const u32 base = shared_address(dynamic_shared), full = base + 3 * 4096, empty = full + 24;
  const u32 thread = threadIdx.x, lane = thread % 32;
  if (thread == 0) {
    for (u32 stage = 0; stage < 3; ++stage) {
      mbarrier_init(full + 8 * stage, 1);
      mbarrier_init(empty + 8 * stage, 64);
    }
    fence_mbarrier_init();
  }
  block_barrier();
  u32 stage = 0, parity = 0;
  if (thread < 32) {
    if (!elect()) return;
    for (int tile = 0; tile < tiles; ++tile) {
      while (!mbarrier_try_wait(empty + 8 * stage, parity ^ 1)) {
      }
      // Half of the bytes are announced before the arrival, half by it.
      mbarrier_expect(full + 8 * stage, 2048);
      bulk_load(base + stage * 4096, x + tile * 1024, 2048, full + 8 * stage);
      bulk_load(base + stage * 4096 + 2048, x + tile * 1024 + 512, 2048, full + 8 * stage);
      mbarrier_arrive_expect(full + 8 * stage, 2048);
      if (++stage == 3) stage = 0, parity ^= 1;
    }
    return;
  }
  u32 sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    while (!mbarrier_try_wait(full + 8 * stage, parity)) {
    }
    for (u32 part = 0; part < 4; ++part) {
      u32 r[4];
      load_matrices(r, base + stage * 4096 + (thread / 32 - 1) * 2048 + part * 512 + lane * 16);
      sum += r[0] + r[1] + r[2] + r[3];
    }
    fence_proxy_async();
    mbarrier_arrive(empty + 8 * stage);
    if (++stage == 3) stage = 0, parity ^= 1;
  }
  sums[thread - 32] = sum;
}

// As read_stages with cp.async: 64 producer threads whose copies arrive at the barrier themselves,
// and 64 consumers. x [tiles, 1024], sums [64]; 128 threads.
extern "C" __global__ void __launch_bounds__(128)
    copies_that_arrive(const u32* x, u32* sums, int tiles) {
  const u32 base = shared_address(dynamic_shared), full = base + 2 * 4096, empty = full + 16;
  const u32 thread = threadIdx.x, index = thread % 64;
  if (thread == 0) {
    for (u32 stage = 0; stage < 2; ++stage) {
      mbarrier_init(full + 8 * stage, 64);
      mbarrier_init(empty + 8 * stage, 64);
    }
  }
  block_barrier();
  u32 sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const u32 stage = tile & 1, parity = (tile >> 1) & 1;
    if (thread < 64) {
      mbarrier_wait(empty + 8 * stage, parity ^ 1);
      for (u32 part = 0; part < 4; ++part) {
        const u32 word = part * 256 + index * 4;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + stage * 4096 + word * 4),
            "l"(x + tile * 1024 + word)
            : "memory");
      }
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * stage)
                   : "memory");
    } else {
      mbarrier_wait(full + 8 * stage, parity);
      for (u32 i = index; i < 1024; i += 64) sum += load_shared(base + stage * 4096 + 4 * i);
      mbarrier_arrive(empty + 8 * stage);
    }
  }
  if (thread >= 64) sums[index] = sum;
}

// y = x + 1 of 32-bit words, 1024 at a time: copied in, changed in place, copied out; two buffers,
// each with a barrier that counts bytes. 128 threads.
extern "C" __global__ void __launch_bounds__(128) add_one(const u32* x, u32* y, int tiles) {
  const u32 base = shared_address(dynamic_shared), full = base + 2 * 4096, thread = threadIdx.x;
  if (thread == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(full + 8, 1);
    fence_mbarrier_init();
  }
  block_barrier();
  for (int tile = 0; tile < tiles; ++tile) {
    const u32 stage = tile & 1, buffer = base + stage * 4096;
    if (thread == 0) {
      bulk_wait_read<1>();
      mbarrier_arrive_expect(full + 8 * stage, 4096);
      bulk_load(buffer, x + tile * 1024, 4096, full + 8 * stage);
    }
    mbarrier_wait(full + 8 * stage, (tile >> 1) & 1);
    for (u32 i = thread; i < 1024; i += 128) {
      const u32 word = load_shared(buffer + 4 * i) + 1;
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(buffer + 4 * i), "r"(word) : "memory");
    }
    fence_proxy_async();
    block_barrier();
    if (thread == 0) {
      bulk_store(y + tile * 1024, buffer, 4096);
      bulk_commit();
    }
  }
  if (thread == 0) bulk_wait_read<0>();
}

// y = x + 1 where an earlier kernel may still write x.
extern "C" __global__ void __launch_bounds__(128) dependent_add_one(const u32* x, u32* y) {
  const u32 i = blockIdx.x * 128 + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const u32 word = x[i];
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  y[i] = word + 1;
}

// The barrier's place in shared memory is used for something else and for a barrier again: inval,
// the block's barrier, and a fence. sums [32] of x [2, 1024]; 32 threads.
extern "C" __global__ void __launch_bounds__(32) barrier_again(const u32* x, u32* sums) {
  const u32 base = shared_address(dynamic_shared), barrier = base + 4096, thread = threadIdx.x;
  u32 sum = 0;
  for (u32 round = 0; round < 2; ++round) {
    if (thread == 0) {
      mbarrier_init(barrier, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect(barrier, 4096);
      bulk_load(base, x + round * 1024, 4096, barrier);
    }
    warp_barrier();
    mbarrier_wait(barrier, 0);
    for (u32 i = thread; i < 1024; i += 32) sum += load_shared(base + 4 * i);
    fence_proxy_async();
    warp_barrier();
    if (thread == 0) mbarrier_invalidate(barrier);
  }
  sums[thread] = sum;
}
