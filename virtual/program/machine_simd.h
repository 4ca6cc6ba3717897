// The best instruction set of the virtual device's handlers that this machine can run. A header that
// includes nothing: cmake/machine_simd.cpp asks it before anything is built.
#pragma once

namespace lssar {

// "plain", "avx2" or "avx512", as in simd_level.h.
inline const char* machine_simd() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("bmi2")) {
    return "plain";
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vbmi")) {
    return "avx2";
  }
  return "avx512";
}

}  // namespace lssar
