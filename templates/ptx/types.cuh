// Integer names, element types and the attribute of every device function. No CUDA or standard
// header: NVRTC spends more on those than on a whole kernel.
#pragma once

#define LSSAR_DEVICE __device__ __forceinline__

namespace lssar_device {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// Storage formats. Arithmetic is in float; see ptx/convert.cuh.
struct Bf16 {
  u16 bits;
};
struct Fp16 {
  u16 bits;
};

template <class A, class B>
struct IsSame {
  static constexpr bool value = false;
};
template <class A>
struct IsSame<A, A> {
  static constexpr bool value = true;
};

constexpr int kWarpThreads = 32;
constexpr int kVectorBytes = 16;  // widest load, store and copy of one thread

}  // namespace lssar_device
