// Vectors of floats, as wide as the instruction set has them, for the arithmetic of wgmma: the few
// operations it needs, with the same names in every width. Groups are the 4 lanes of 128 bits.
#pragma once

#include <immintrin.h>

#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

// Element types of wgmma that common.h does not have.
struct tf32 {
  u32 bits;
};
struct e4m3 {
  u8 bits;
};
struct e5m2 {
  u8 bits;
};
struct signed_byte {
  u8 bits;
};
struct unsigned_byte {
  u8 bits;
};

inline constexpr u32 kTf32Mask = ~0x1fffu;  // the low 13 bits are ignored

#if defined(__AVX512F__)

inline constexpr u32 kWidth = 16;
using Floats = __m512;
using Bits = __m512i;

inline Floats load_floats(const f32* p) { return _mm512_load_ps(p); }
inline void store_floats(f32* p, Floats x) { _mm512_store_ps(p, x); }
inline Floats zero_floats() { return _mm512_setzero_ps(); }
inline Floats broadcast_group(const f32* p) { return _mm512_broadcast_f32x4(_mm_load_ps(p)); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats unpack_low(Floats a, Floats b) { return _mm512_unpacklo_ps(a, b); }
inline Floats unpack_high(Floats a, Floats b) { return _mm512_unpackhi_ps(a, b); }
inline Floats join_low(Floats a, Floats b) {  // the low halves of each group
  return _mm512_shuffle_ps(a, b, 0x44);
}
inline Floats join_high(Floats a, Floats b) { return _mm512_shuffle_ps(a, b, 0xee); }
template <int kLane>
inline Floats spread(Floats x) {  // one lane of each group
  return _mm512_permute_ps(x, kLane * 0x55);
}
inline Bits load_bits(const void* p) { return _mm512_load_si512(p); }
inline Floats as_floats(Bits x) { return _mm512_castsi512_ps(x); }
inline Bits flip_bits(Bits x, u32 flip) {
  return _mm512_xor_si512(x, _mm512_set1_epi32(static_cast<int>(flip)));
}
inline Bits keep_bits(Bits x, u32 mask) {
  return _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(mask)));
}
template <int kBy>
inline Bits shift_left(Bits x) {
  return _mm512_slli_epi32(x, kBy);
}
template <int kBy>
inline Bits shift_right(Bits x) {
  return _mm512_srli_epi32(x, kBy);
}
// The low 16 bits of each lane.
inline Floats half_to_floats(Bits x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
// kWidth values side by side, one per lane.
inline Bits load_shorts(const u8* p) {
  return _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Bits load_bytes(const u8* p) {
  return _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Bits where_equal(Bits x, u32 value, u32 then, Bits otherwise) {
  return _mm512_mask_set1_epi32(
      otherwise, _mm512_cmpeq_epi32_mask(x, _mm512_set1_epi32(static_cast<int>(value))),
      static_cast<int>(then));
}
inline Bits as_bits(Floats x) { return _mm512_castps_si512(x); }
inline Floats integer_to_floats(Bits x) { return _mm512_cvtepi32_ps(x); }
inline Bits extend_byte(Bits x) { return _mm512_srai_epi32(shift_left<24>(x), 24); }
inline Floats scale(Floats x, f32 by) { return _mm512_mul_ps(x, _mm512_set1_ps(by)); }

#elif defined(__AVX2__)

inline constexpr u32 kWidth = 8;
using Floats = __m256;
using Bits = __m256i;

inline Floats load_floats(const f32* p) { return _mm256_load_ps(p); }
inline void store_floats(f32* p, Floats x) { _mm256_store_ps(p, x); }
inline Floats zero_floats() { return _mm256_setzero_ps(); }
inline Floats broadcast_group(const f32* p) {
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
}
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats unpack_low(Floats a, Floats b) { return _mm256_unpacklo_ps(a, b); }
inline Floats unpack_high(Floats a, Floats b) { return _mm256_unpackhi_ps(a, b); }
inline Floats join_low(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0x44); }
inline Floats join_high(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0xee); }
template <int kLane>
inline Floats spread(Floats x) {
  return _mm256_permute_ps(x, kLane * 0x55);
}
inline Bits load_bits(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
inline Floats as_floats(Bits x) { return _mm256_castsi256_ps(x); }
inline Bits flip_bits(Bits x, u32 flip) {
  return _mm256_xor_si256(x, _mm256_set1_epi32(static_cast<int>(flip)));
}
inline Bits keep_bits(Bits x, u32 mask) {
  return _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(mask)));
}
template <int kBy>
inline Bits shift_left(Bits x) {
  return _mm256_slli_epi32(x, kBy);
}
template <int kBy>
inline Bits shift_right(Bits x) {
  return _mm256_srli_epi32(x, kBy);
}
inline Floats half_to_floats(Bits x) {
  const __m256i packed = _mm256_packus_epi32(keep_bits(x, 0xffff), _mm256_setzero_si256());
  return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}
inline Bits load_shorts(const u8* p) {
  return _mm256_cvtepu16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Bits load_bytes(const u8* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline Bits where_equal(Bits x, u32 value, u32 then, Bits otherwise) {
  const __m256i equal = _mm256_cmpeq_epi32(x, _mm256_set1_epi32(static_cast<int>(value)));
  return _mm256_blendv_epi8(otherwise, _mm256_set1_epi32(static_cast<int>(then)), equal);
}
inline Bits as_bits(Floats x) { return _mm256_castps_si256(x); }
inline Floats integer_to_floats(Bits x) { return _mm256_cvtepi32_ps(x); }
inline Bits extend_byte(Bits x) { return _mm256_srai_epi32(shift_left<24>(x), 24); }
inline Floats scale(Floats x, f32 by) { return _mm256_mul_ps(x, _mm256_set1_ps(by)); }

#else

inline constexpr u32 kWidth = 4;
using Floats = __m128;
using Bits = __m128i;

inline Floats load_floats(const f32* p) { return _mm_load_ps(p); }
inline void store_floats(f32* p, Floats x) { _mm_store_ps(p, x); }
inline Floats zero_floats() { return _mm_setzero_ps(); }
inline Floats broadcast_group(const f32* p) { return _mm_load_ps(p); }
// Products of these formats are exact in float's range. So rounding them first gives the bits of a
// fused multiply-add.
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
inline Floats unpack_low(Floats a, Floats b) { return _mm_unpacklo_ps(a, b); }
inline Floats unpack_high(Floats a, Floats b) { return _mm_unpackhi_ps(a, b); }
inline Floats join_low(Floats a, Floats b) { return _mm_movelh_ps(a, b); }
inline Floats join_high(Floats a, Floats b) { return _mm_movehl_ps(b, a); }
template <int kLane>
inline Floats spread(Floats x) {
  return _mm_shuffle_ps(x, x, kLane * 0x55);
}
inline Bits load_bits(const void* p) { return _mm_load_si128(static_cast<const __m128i*>(p)); }
inline Floats as_floats(Bits x) { return _mm_castsi128_ps(x); }
inline Bits flip_bits(Bits x, u32 flip) {
  return _mm_xor_si128(x, _mm_set1_epi32(static_cast<int>(flip)));
}
inline Bits keep_bits(Bits x, u32 mask) {
  return _mm_and_si128(x, _mm_set1_epi32(static_cast<int>(mask)));
}
template <int kBy>
inline Bits shift_left(Bits x) {
  return _mm_slli_epi32(x, kBy);
}
template <int kBy>
inline Bits shift_right(Bits x) {
  return _mm_srli_epi32(x, kBy);
}
inline Floats half_to_floats(Bits x) {
  alignas(16) u32 lane[4];
  alignas(16) f32 value[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(lane), x);
  for (u32 i = 0; i < 4; ++i) value[i] = to_float(f16{static_cast<u16>(lane[i])});
  return _mm_load_ps(value);
}
inline Bits load_shorts(const u8* p) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_unpacklo_epi16(x, _mm_setzero_si128());
}
inline Bits load_bytes(const u8* p) {
  int word;
  memcpy(&word, p, sizeof word);
  const __m128i zero = _mm_setzero_si128();
  return _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(word), zero), zero);
}
inline Bits where_equal(Bits x, u32 value, u32 then, Bits otherwise) {
  const __m128i equal = _mm_cmpeq_epi32(x, _mm_set1_epi32(static_cast<int>(value)));
  return _mm_or_si128(_mm_and_si128(equal, _mm_set1_epi32(static_cast<int>(then))),
                      _mm_andnot_si128(equal, otherwise));
}
inline Bits as_bits(Floats x) { return _mm_castps_si128(x); }
inline Floats integer_to_floats(Bits x) { return _mm_cvtepi32_ps(x); }
inline Bits extend_byte(Bits x) { return _mm_srai_epi32(shift_left<24>(x), 24); }
inline Floats scale(Floats x, f32 by) { return _mm_mul_ps(x, _mm_set1_ps(by)); }

#endif

// The lowest bits of each lane, as an element type.
inline Floats element_to_floats(Bits x, bf16) { return as_floats(shift_left<16>(x)); }
inline Floats element_to_floats(Bits x, f16) { return half_to_floats(x); }
inline Floats element_to_floats(Bits x, tf32) { return as_floats(keep_bits(x, kTf32Mask)); }
inline Floats element_to_floats(Bits x, e5m2) { return half_to_floats(shift_left<8>(x)); }
// As a half, the exponent's bias is 8 larger; 0x7f is NaN. There are no infinities.
inline Floats element_to_floats(Bits x, e4m3) {
  const Bits magnitude = keep_bits(x, 0x7f);
  const Floats value = scale(half_to_floats(shift_left<7>(magnitude)), 256.0f);
  const Bits bits = where_equal(magnitude, 0x7f, kFloatNan, as_bits(value));
  return as_floats(bits | shift_left<24>(keep_bits(x, 0x80)));
}
inline Floats element_to_floats(Bits x, signed_byte) { return integer_to_floats(extend_byte(x)); }
inline Floats element_to_floats(Bits x, unsigned_byte) {
  return integer_to_floats(keep_bits(x, 0xff));
}

// kWidth elements side by side.
inline Floats load_elements(const u8* p, bf16 type) {
  return element_to_floats(load_shorts(p), type);
}
inline Floats load_elements(const u8* p, f16 type) {
  return element_to_floats(load_shorts(p), type);
}
inline Floats load_elements(const u8* p, tf32 type) {
  return element_to_floats(load_bits(p), type);
}
inline Floats load_elements(const u8* p, e4m3 type) {
  return element_to_floats(load_bytes(p), type);
}
inline Floats load_elements(const u8* p, e5m2 type) {
  return element_to_floats(load_bytes(p), type);
}
inline Floats load_elements(const u8* p, signed_byte type) {
  return element_to_floats(load_bytes(p), type);
}
inline Floats load_elements(const u8* p, unsigned_byte type) {
  return element_to_floats(load_bytes(p), type);
}

}  // namespace lssar::vdev::LSSAR_SIMD
