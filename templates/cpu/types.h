// Integer names, element types and the attributes of all functions of a CPU kernel. It includes no
// header and uses only vector extensions and builtins that clang and g++ have.
#pragma once

// Nearly everything is inlined into the kernels. Without min_vector_width clang may split 64-byte
// vectors.
#if defined(__clang__)
#define LSSAR_WIDE __attribute__((min_vector_width(512)))
#define LSSAR_UNROLL _Pragma("unroll")
#define LSSAR_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define LSSAR_WIDE
#define LSSAR_UNROLL _Pragma("GCC unroll 32")
#define LSSAR_ROLLED _Pragma("GCC unroll 1")
#endif
#define LSSAR_HOST inline __attribute__((always_inline)) LSSAR_WIDE
// For large functions that are called from several places, so that they are compiled once.
#define LSSAR_CALLED static __attribute__((noinline)) LSSAR_WIDE

namespace lssar_device {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// Storage formats. Arithmetic is in float; see cpu/vector.h.
struct Bf16 {
  u16 bits;
};
struct Fp16 {
  u16 bits;
};

// A value that a function gets as a type.
template <bool kIs>
struct Constant {
  static constexpr bool kValue = kIs;
};

// Select<condition, A, B>::Type is A or B.
template <bool kFirst, class A, class B>
struct Select {
  using Type = A;
};
template <class A, class B>
struct Select<false, A, B> {
  using Type = B;
};

// Vectors of kLanes floats, doubles, the bits of floats, and 16-bit words.
template <int kLanes>
struct VectorOf {
  typedef float Floats __attribute__((vector_size(kLanes * 4)));
  typedef double Doubles __attribute__((vector_size(kLanes * 8)));
  typedef int Ints __attribute__((vector_size(kLanes * 4)));
  typedef u32 Words __attribute__((vector_size(kLanes * 4)));
  typedef u16 Halves __attribute__((vector_size(kLanes * 2)));
  typedef short SignedHalves __attribute__((vector_size(kLanes * 2)));
};

}  // namespace lssar_device
