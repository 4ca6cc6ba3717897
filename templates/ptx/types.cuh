// Integer names, element types and the attribute of every device function.
//
// There is no CUDA or standard header, because NVRTC spends more time on those than on a whole
// kernel.
#pragma once

#include "templates/ptx/sizes.cuh"

#define LSSAR_DEVICE __device__ __forceinline__
//
// The directive as a word before its loop, as emitted sources write it.
#define LSSAR_UNROLL _Pragma("unroll")

// LSSAR_GRID_CONSTANT: a kernel parameter that is used in place, without a copy.
// LSSAR_INLINE_CALL: before a call of a closure, which must be inlined.
//
// clang 19 has no word for a grid constant; the LLVM compiler marks the parameters of kernels
// itself. clang inlines closures by size only, and ptxas would wait for each wgmma before a call
// that is not inlined.
#if defined(__clang__)
#define LSSAR_GRID_CONSTANT
#define LSSAR_INLINE_CALL [[clang::always_inline]]
#else
#define LSSAR_GRID_CONSTANT __grid_constant__
#define LSSAR_INLINE_CALL
#endif

namespace lssar_device {

using namespace lssar_constants;

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// Storage formats. Arithmetic is in float; see ptx/convert.cuh.
struct Bf16 {
  u16 bits;
  static constexpr u32 kOnePair = 0x3f803f80u;  // 1, 1 in a packed register
};
struct Fp16 {
  u16 bits;
  static constexpr u32 kOnePair = 0x3c003c00u;
};

// A if kChoice is true, else B.
template <bool kChoice, class A, class B>
struct Select {
  using Type = A;
};
template <class A, class B>
struct Select<false, A, B> {
  using Type = B;
};

constexpr int kVectorBytes = 16;  // widest load, store and copy of one thread

}  // namespace lssar_device
