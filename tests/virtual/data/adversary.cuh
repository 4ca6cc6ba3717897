// What the kernels of adversary_*.cu share. Every one is correct and leaves in[i] in out[i]; a test
// makes a bug of it by an edit of its PTX:
//
//   instruction; // @name     a line that a test may take away or change
//   // @name instruction;     a line that a test may put in
//
// Reports must name lines by number, which these marks stand for.
#pragma once

#include "hopper_wgmma.cuh"

// Must equal the struct in adversary.cpp, to the byte. The maps are: `in` and `out` as rows of 32
// words, in boxes of 32 rows without a swizzle; `in` as rows of 64 bf16, in boxes of 64 rows with
// the 128-byte swizzle.
struct Arguments {
  const u32* in;
  u32* out;
  u32* scratch;  // begins as zeros
  __align__(64) TensorMap map_in;
  TensorMap map_out;
  TensorMap map_tile;
};
#define KERNEL(name, threads) \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Arguments a)

#define BLOCK_BARRIER(mark) asm volatile("bar.sync 0; // @" mark ::: "memory")
#define WARP_BARRIER(mark) asm volatile("bar.warp.sync 0xffffffff; // @" mark ::: "memory")
#define FENCE_PROXY(mark) asm volatile("fence.proxy.async.shared::cta; // @" mark ::: "memory")
#define PLAIN(instruction, mark) asm volatile(instruction "; // @" mark ::: "memory")

#define LOAD_SHARED(value, address, mark) \
  asm volatile("ld.shared.u32 %0, [%1]; // @" mark : "=r"(value) : "r"(address) : "memory")
#define STORE_SHARED(address, value, mark) \
  asm volatile("st.shared.u32 [%0], %1; // @" mark ::"r"(address), "r"(value) : "memory")
#define LOAD_GLOBAL(value, address, mark) \
  asm volatile("ld.global.u32 %0, [%1]; // @" mark : "=r"(value) : "l"(address) : "memory")
#define STORE_GLOBAL(address, value, mark) \
  asm volatile("st.global.u32 [%0], %1; // @" mark ::"l"(address), "r"(value) : "memory")

#define MBARRIER_INIT(barrier, count, mark)                                                        \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], " count "; // @" mark ::"r"(barrier) : "memor" \
                                                                                           "y")
#define MBARRIER_EXPECT(barrier, bytes, mark)                              \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], " bytes \
               "; // @" mark ::"r"(barrier)                                \
               : "memory")
#define MBARRIER_ARRIVE(barrier, mark)                                                         \
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0]; // @" mark ::"r"(barrier) \
               : "memory")
// Marks MARK (the wait) and MARK_again (its loop). `parity` is an asm operand or a literal.
#define MBARRIER_WAIT(barrier, parity, mark)                                           \
  asm volatile(                                                                        \
      "{\n"                                                                            \
      ".reg .pred done;\n"                                                             \
      "AGAIN:\n"                                                                       \
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1; // @" mark \
      "\n"                                                                             \
      "@!done bra AGAIN; // @" mark                                                    \
      "_again\n"                                                                       \
      "}" ::"r"(barrier),                                                              \
      "r"(parity)                                                                      \
      : "memory")
#define TMA_LOAD(target, map, barrier, column, row, mark)                            \
  asm volatile(                                                                      \
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes " \
      "[%0], [%1, {%3, %4}], [%2]; // @" mark ::"r"(target),                         \
      "l"(map), "r"(barrier), "r"(column), "r"(row)                                  \
      : "memory")
#define TMA_STORE(map, source, column, row, mark)                                                \
  asm volatile(                                                                                  \
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1]; // @" mark :: \
          "l"(map),                                                                              \
      "r"(source), "r"(column), "r"(row)                                                         \
      : "memory")
