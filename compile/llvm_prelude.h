// The attributes that self-contained kernels need from CUDA's headers, in clang's own spelling.
// llvm_module.cpp puts this before every source.
#pragma once

namespace lssar {

constexpr char kLlvmPrelude[] = R"(
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
)";

}  // namespace lssar
