// What the handler files share: lane types, register access and the loops over lanes.
//
// Every file of ops/ is compiled once per instruction set; LSSAR_SIMD names the namespace. The
// files are compiled without strict aliasing, because a register is read as whatever type the
// instruction has, and without contraction of a * b + c.
// NOTE: everything here lives in that namespace, and nothing here includes a standard library
// header with inline functions. Otherwise AVX-512 code could be linked into the plain build.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "virtual/program/program.h"
#include "virtual/state/warp.h"

#ifndef LSSAR_SIMD
#error "LSSAR_SIMD must name the instruction set: plain, avx2 or avx512"
#endif

#define LSSAR_LANES _Pragma("GCC ivdep") for (uint32_t i = 0; i < kLanes; ++i)

namespace lssar::vdev::LSSAR_SIMD {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

inline constexpr u32 kFloatNan = 0x7fffffffu;  // the NaN that PTX instructions produce
inline constexpr u16 kHalfNan = 0x7fffu;       // of f16 and bf16

template <class To, class From>
inline To bits_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class T>
inline T* lanes(const Warp& w, u32 offset) {
  return static_cast<T*>(__builtin_assume_aligned(w.registers + offset, 64));
}
inline u32& mask_of(const Warp& w, u32 offset) {
  return *reinterpret_cast<u32*>(w.registers + offset);
}

// d = F(a), F(a, b) ... for every lane. Inactive lanes are computed too.
template <class F, class D, class A>
void unary(Warp& w, const Op& op) {
  D* d = lanes<D>(w, op.dst);
  const A* a = lanes<A>(w, op.a);
  LSSAR_LANES d[i] = F::apply(a[i]);
}
template <class F, class D, class A, class B>
void binary(Warp& w, const Op& op) {
  D* d = lanes<D>(w, op.dst);
  const A* a = lanes<A>(w, op.a);
  const B* b = lanes<B>(w, op.b);
  LSSAR_LANES d[i] = F::apply(a[i], b[i]);
}
template <class F, class D, class A, class B, class C>
void ternary(Warp& w, const Op& op) {
  D* d = lanes<D>(w, op.dst);
  const A* a = lanes<A>(w, op.a);
  const B* b = lanes<B>(w, op.b);
  const C* c = lanes<C>(w, op.c);
  LSSAR_LANES d[i] = F::apply(a[i], b[i], c[i]);
}
template <class F, class T>
inline constexpr Handler unary_of = unary<F, T, T>;
template <class F, class T>
inline constexpr Handler binary_of = binary<F, T, T, T>;
template <class F, class T>
inline constexpr Handler ternary_of = ternary<F, T, T, T, T>;

inline u32 lowest_lane(u32 mask) { return static_cast<u32>(__builtin_ctz(mask)); }

// Writes the active lanes of a predicate.
inline void store_mask(const Warp& w, u32 offset, u32 value) {
  u32& d = mask_of(w, offset);
  d = (d & ~w.mask) | (value & w.mask);
}

// Writes the active lanes of a register.
template <class T>
inline void store_lanes(const Warp& w, u32 offset, const T* value) {
  T* d = lanes<T>(w, offset);
  if (w.mask == kAllLanes) {
    LSSAR_LANES d[i] = value[i];
  } else {
    LSSAR_LANES d[i] = (w.mask >> i) & 1 ? value[i] : d[i];
  }
}

// Float helpers.
inline f32 flush(f32 x) {
  const u32 bits = bits_to<u32>(x);
  return bits_to<f32>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
inline f32 saturate(f32 x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline f32 to_float(bf16 x) { return bits_to<f32>(static_cast<u32>(x.bits) << 16); }
inline f32 to_float(f16 x) {
  const u32 magnitude = static_cast<u32>(x.bits & 0x7fffu) << 13;
  u32 bits = bits_to<u32>(bits_to<f32>(magnitude) * 0x1p112f);
  bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits;
  return bits_to<f32>(bits | static_cast<u32>(x.bits & 0x8000u) << 16);
}
inline bf16 to_bf16(f32 x) {
  const u32 bits = bits_to<u32>(x);
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return {static_cast<u16>((bits & 0x7fffffffu) > 0x7f800000u ? kHalfNan : rounded)};
}
inline f16 to_f16(f32 x) {
  const u32 bits = bits_to<u32>(x);
  const u32 sign = (bits >> 16) & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  // Normal: rebias the exponent by -112 and round the 13 bits that go.
  const u32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14: adding 0.5 lets the hardware round at the last place of a subnormal.
  const u32 tiny = bits_to<u32>(bits_to<f32>(magnitude) + 0.5f) - 0x3f000000u;
  u32 result = magnitude < 0x38800000u ? tiny : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? kHalfNan : (result | sign);
  return {static_cast<u16>(result)};
}
template <class T>
T round_to(f32 x);
template <>
inline f16 round_to<f16>(f32 x) {
  return to_f16(x);
}
template <>
inline bf16 round_to<bf16>(f32 x) {
  return to_bf16(x);
}

}  // namespace lssar::vdev::LSSAR_SIMD
