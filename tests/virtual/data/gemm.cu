// A small matrix product for the tests of the virtual device, in the style of the project's portable
// kernels: cp.async with two stages, a swizzle, ldmatrix, mma.sync, predicated stores.
//
// c[m, n] (float) = a[m, k] b[n, k]^T (bf16); a block makes 64 x 64 of c with four warps. k is a
// multiple of 8. The .ptx files beside it were made from it with
//   nvcc -ptx -arch=sm_80 gemm.cu -o gemm_nvcc.ptx
//   clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -O3 -S \
//     gemm.cu -o gemm_clang.ptx
#ifdef __clang__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __attribute__((always_inline)) inline
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
#endif

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct GemmParams {
  const u16* a;
  const u16* b;
  float* c;
  int m;
  int n;
  int k;
};

constexpr int kTile = 64;
constexpr int kStepK = 32;        // of a stage
constexpr int kRowBytes = 64;     // kStepK elements
constexpr int kTileBytes = 4096;  // of a or b
constexpr int kThreads = 128;

extern __shared__ __attribute__((aligned(16))) unsigned char stages[];

// Byte offset of 16-byte chunk `chunk` of a row: rows 2i and 2i + 1 hold their chunks in the order
// chunk ^ i, so that ldmatrix has no bank conflicts.
__device__ __forceinline__ u32 chunk_offset(int row, int chunk) {
  return static_cast<u32>(row * kRowBytes + ((chunk ^ ((row >> 1) & 3)) * 16));
}

__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void load_tile(u32 shared, const u16* source, int first_row, int rows,
                                          int first_k, int k, int thread) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int index = thread + kThreads * i;
    const int row = index >> 2, chunk = index & 3;
    const int column = first_k + chunk * 8;
    const bool valid = first_row + row < rows && column < k;
    const u16* address = source + static_cast<long long>(first_row + row) * k + column;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared +
                                                                      chunk_offset(row, chunk)),
                 "l"(address), "r"(valid ? 16 : 0));
  }
}

__device__ __forceinline__ void multiply_stage(float (&acc)[8][4], u32 stage, int warp, int lane) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    u32 a[4];
    load_matrices(a, stage + chunk_offset(warp * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      u32 b[4];
      const int row = pair * 16 + ((lane >> 4) << 3) + (lane & 7);
      load_matrices(b, stage + kTileBytes + chunk_offset(row, step * 2 + ((lane >> 3) & 1)));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float(&d)[4] = acc[pair * 2 + half];
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * half]), "r"(b[2 * half + 1]));
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) gemm(const GemmParams p) {
  int thread, block_x, block_y;
  asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(block_x));
  asm("mov.u32 %0, %%ctaid.y;" : "=r"(block_y));
  const int lane = thread & 31, warp = thread >> 5;
  u64 base;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(base) : "l"(stages));
  const u32 shared = static_cast<u32>(base);
  const int first_m = block_y * kTile, first_n = block_x * kTile;

  const auto load_stage = [&](int index) {
    const u32 stage = shared + (index & 1) * 2 * kTileBytes;
    load_tile(stage, p.a, first_m, p.m, index * kStepK, p.k, thread);
    load_tile(stage + kTileBytes, p.b, first_n, p.n, index * kStepK, p.k, thread);
  };

  float acc[8][4] = {};
  const int stages_k = (p.k + kStepK - 1) / kStepK;
  load_stage(0);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int i = 0; i < stages_k; ++i) {
    if (i + 1 < stages_k) load_stage(i + 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    asm volatile("bar.sync 0;" ::: "memory");
    multiply_stage(acc, shared + (i & 1) * 2 * kTileBytes, warp, lane);
    asm volatile("bar.sync 0;" ::: "memory");
  }

#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_m + warp * 16 + (lane >> 2) + 8 * (i >> 1);
      const int column = first_n + tile * 8 + 2 * (lane & 3) + (i & 1);
      if (row < p.m && column < p.n) p.c[static_cast<long long>(row) * p.n + column] = acc[tile][i];
    }
  }
}
