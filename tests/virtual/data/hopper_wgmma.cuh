// wgmma as functions, for the test kernels of this folder: bf16 in, float accumulators.
//
// An accumulator tile of 64 x N is held by the 128 threads of a warp group: element i of thread t
// is at row 16 (t / 32) + (t % 32) / 4 + 8 ((i / 2) & 1), column 8 (i / 4) + 2 (t % 4) + (i & 1).
#pragma once

#include "hopper_ptx.cuh"

// Registers may be used by wgmma from here on as they are now.
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kPending groups are in flight. NOTE: the accumulators are operands, so that the
// compiler moves no use of them across the wait.
template <int kPending, int kCount>
DEVICE void wgmma_wait(float (&acc)[kCount]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(acc[i])::"memory");
}

// A tile of 128-byte rows with the 128-byte swizzle. K-major (rows are m or n): 8-row groups are
// 1024 bytes apart. MN-major (rows are k): they too, and `chunk_bytes` lie between two chunks of 64
// columns.
DEVICE u64 tile_descriptor(u32 address, u32 chunk_bytes = 16) {
  const u64 swizzle_128 = 1ull << 62, group = static_cast<u64>(1024 >> 4) << 32;
  return swizzle_128 | group | static_cast<u64>(chunk_bytes >> 4) << 16 |
         ((address & 0x3ffff) >> 4);
}
// What a descriptor advances by for 16 elements along k.
constexpr u64 kNextKMajor = 32 >> 4;           // 16 columns
constexpr u64 kNextMnMajor = (16 * 128) >> 4;  // 16 rows

#define ACC8(i)                                                                         \
  "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]), \
      "+f"(acc[i + 5]), "+f"(acc[i + 6]), "+f"(acc[i + 7])
#define REGISTERS_32                                                                            \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define REGISTERS_64                                                                           \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "     \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, " \
  "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, " \
  "%55, %56, %57, %58, %59, %60, %61, %62, %63}"

// acc (64 x 64) = a b (+ acc): both from shared memory; kTransposeB: b is MN-major.
template <int kTransposeB>
DEVICE void wgmma_shared(float (&acc)[32], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGISTERS_32
      ", %32, %33, p, 1, 1, 0, %35;\n"
      "}"
      : ACC8(0), ACC8(8), ACC8(16), ACC8(24)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransposeB)
      : "memory");
}
template <int kTransposeB>
DEVICE void wgmma_shared(float (&acc)[64], u64 a, u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGISTERS_64
      ", %64, %65, p, 1, 1, 0, %67;\n"
      "}"
      : ACC8(0), ACC8(8), ACC8(16), ACC8(24), ACC8(32), ACC8(40), ACC8(48), ACC8(56)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransposeB)
      : "memory");
}

// The same with a in registers: 16 columns of an accumulator tile, two elements per register.
template <int kTransposeB>
DEVICE void wgmma_registers(float (&acc)[32], const u32 (&a)[4], u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGISTERS_32
      ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n"
      "}"
      : ACC8(0), ACC8(8), ACC8(16), ACC8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kTransposeB)
      : "memory");
}
template <int kTransposeB>
DEVICE void wgmma_registers(float (&acc)[64], const u32 (&a)[4], u64 b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGISTERS_64
      ", {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n"
      "}"
      : ACC8(0), ACC8(8), ACC8(16), ACC8(24), ACC8(32), ACC8(40), ACC8(48), ACC8(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kTransposeB)
      : "memory");
}

// 16 columns of an accumulator tile as the A operand of one wgmma, or as four 8 x 8 matrices.
template <int kCount>
DEVICE void pack_columns(u32 (&a)[4], const float (&acc)[kCount], int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack_bf16(acc[8 * step + 2 * i], acc[8 * step + 2 * i + 1]);
}
