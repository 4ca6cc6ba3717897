// The product of one mma.sync with float accumulators, straight on the fragments' lanes.
//
// Lane 4 g + t of an accumulator belongs to row g and column 2t (or 2t + 1). So one step over k
// needs a[g][k], equal in the four lanes of a group, and b[k][2t], equal in every group. A 32-bit
// register of a holds k = 2t', 2t' + 1 in lane t' of its group. Broadcasting within groups of four
// lanes (an in-lane shuffle) gives the first; a permutation of b's register across all lanes gives
// the second. Products are summed in the order of k, as in the plain build, so that all builds give
// the same bits.
#pragma once

#include "virtual/state/registers.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace lssar::vdev::LSSAR_SIMD {

#if defined(__AVX512F__)

// The low and the high halves of 32-bit lanes as floats.
inline __m512 expand_low(__m512i x, bf16) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
inline __m512 expand_high(__m512i x, bf16) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline __m512 expand_low(__m512i x, f16) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
inline __m512 expand_high(__m512i x, f16) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
}

template <int kPair>
inline __m512 broadcast_in_groups(__m512 x) {
  return _mm512_permute_ps(x, kPair * 0x55);
}

// One pair of k: 2 kPair and 2 kPair + 1 of a step of 8.
template <int kPair>
inline void multiply_pair(const __m512 (&a)[2][2][2], const __m512 (&b)[2][2],
                          __m512 (&acc)[4][2]) {
  const __m512i even =
      _mm512_add_epi32(_mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24),
                       _mm512_set1_epi32(kPair));
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(4));
  for (int half = 0; half < 2; ++half) {
    const __m512 b_even = _mm512_permutex2var_ps(b[half][0], even, b[half][1]);
    const __m512 b_odd = _mm512_permutex2var_ps(b[half][0], odd, b[half][1]);
    for (int rows = 0; rows < 2; ++rows) {
      for (int h = 0; h < 2; ++h) {
        const __m512 x = broadcast_in_groups<kPair>(a[rows][half][h]);
        acc[2 * rows][h] = _mm512_fmadd_ps(x, b_even, acc[2 * rows][h]);
        acc[2 * rows + 1][h] = _mm512_fmadd_ps(x, b_odd, acc[2 * rows + 1][h]);
      }
    }
  }
}

template <class T, u32 kSteps>
inline void multiply_fragments(const Warp& w, const u32* d, const u32* a, const u32* b,
                               const u32* c) {
  __m512 acc[4][2];
  for (int r = 0; r < 4; ++r) {
    for (int h = 0; h < 2; ++h) acc[r][h] = _mm512_load_ps(lanes<f32>(w, c[r]) + 16 * h);
  }
  for (u32 step = 0; step < kSteps; ++step) {
    __m512 x[2][2][2];  // rows 0-7 or 8-15; low or high half; lanes 0-15 or 16-31
    __m512 y[2][2];
    for (int h = 0; h < 2; ++h) {
      for (u32 rows = 0; rows < 2; ++rows) {
        const __m512i bits = _mm512_load_si512(lanes<u32>(w, a[2 * step + rows]) + 16 * h);
        x[rows][0][h] = expand_low(bits, T());
        x[rows][1][h] = expand_high(bits, T());
      }
      const __m512i bits = _mm512_load_si512(lanes<u32>(w, b[step]) + 16 * h);
      y[0][h] = expand_low(bits, T());
      y[1][h] = expand_high(bits, T());
    }
    multiply_pair<0>(x, y, acc);
    multiply_pair<1>(x, y, acc);
    multiply_pair<2>(x, y, acc);
    multiply_pair<3>(x, y, acc);
  }
  for (int r = 0; r < 4; ++r) {
    for (int h = 0; h < 2; ++h) _mm512_store_ps(lanes<f32>(w, d[r]) + 16 * h, acc[r][h]);
  }
}

#elif defined(__AVX2__)

inline __m256 expand_low(__m256i x, bf16) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
inline __m256 expand_high(__m256i x, bf16) {
  return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
// The low halves of eight lanes side by side.
inline __m128i gather_halves(__m256i x) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
                                         0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i packed = _mm256_shuffle_epi8(x, order);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
inline __m256 expand_low(__m256i x, f16) { return _mm256_cvtph_ps(gather_halves(x)); }
inline __m256 expand_high(__m256i x, f16) {
  return _mm256_cvtph_ps(gather_halves(_mm256_srli_epi32(x, 16)));
}

// b of one step for every pair of k: [pair][low or high half][columns 2t or 2t + 1][t].
struct alignas(32) PreparedColumns {
  f32 value[4][2][2][4];
};
template <class T>
inline void prepare_columns(const u32* b, PreparedColumns& out) {
  alignas(32) f32 expanded[2][8][4];  // half, column, pair
  for (int n = 0; n < 8; n += 2) {
    const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + 4 * n));
    _mm256_store_ps(expanded[0][n], expand_low(bits, T()));
    _mm256_store_ps(expanded[1][n], expand_high(bits, T()));
  }
  for (int half = 0; half < 2; ++half) {
    for (int odd = 0; odd < 2; ++odd) {
      __m128 r0 = _mm_load_ps(expanded[half][odd]);
      __m128 r1 = _mm_load_ps(expanded[half][2 + odd]);
      __m128 r2 = _mm_load_ps(expanded[half][4 + odd]);
      __m128 r3 = _mm_load_ps(expanded[half][6 + odd]);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_store_ps(out.value[0][half][odd], r0);
      _mm_store_ps(out.value[1][half][odd], r1);
      _mm_store_ps(out.value[2][half][odd], r2);
      _mm_store_ps(out.value[3][half][odd], r3);
    }
  }
}

template <int kPair>
inline void multiply_pair(const __m256 (&x)[2][4], const PreparedColumns& b, __m256 (&acc)[2][4]) {
  for (int half = 0; half < 2; ++half) {
    const __m256 even =
        _mm256_broadcast_ps(reinterpret_cast<const __m128*>(b.value[kPair][half][0]));
    const __m256 odd =
        _mm256_broadcast_ps(reinterpret_cast<const __m128*>(b.value[kPair][half][1]));
    for (int h = 0; h < 4; ++h) {
      const __m256 a = _mm256_permute_ps(x[half][h], kPair * 0x55);
      acc[0][h] = _mm256_fmadd_ps(a, even, acc[0][h]);
      acc[1][h] = _mm256_fmadd_ps(a, odd, acc[1][h]);
    }
  }
}

template <class T, u32 kSteps>
inline void multiply_fragments(const Warp& w, const u32* d, const u32* a, const u32* b,
                               const u32* c) {
  PreparedColumns columns[kSteps];
  for (u32 step = 0; step < kSteps; ++step)
    prepare_columns<T>(lanes<u32>(w, b[step]), columns[step]);
  __m256 result[2][2][4];
  for (u32 rows = 0; rows < 2; ++rows) {  // 0-7, 8-15
    __m256 acc[2][4];
    for (int r = 0; r < 2; ++r) {
      for (int h = 0; h < 4; ++h)
        acc[r][h] = _mm256_load_ps(lanes<f32>(w, c[2 * rows + r]) + 8 * h);
    }
    for (u32 step = 0; step < kSteps; ++step) {
      __m256 x[2][4];
      for (int h = 0; h < 4; ++h) {
        const __m256i bits = _mm256_load_si256(
            reinterpret_cast<const __m256i*>(lanes<u32>(w, a[2 * step + rows]) + 8 * h));
        x[0][h] = expand_low(bits, T());
        x[1][h] = expand_high(bits, T());
      }
      multiply_pair<0>(x, columns[step], acc);
      multiply_pair<1>(x, columns[step], acc);
      multiply_pair<2>(x, columns[step], acc);
      multiply_pair<3>(x, columns[step], acc);
    }
    for (int r = 0; r < 2; ++r) {
      for (int h = 0; h < 4; ++h) result[rows][r][h] = acc[r][h];
    }
  }
  // Comes last, because a destination may be a source.
  for (u32 r = 0; r < 4; ++r) {
    for (int h = 0; h < 4; ++h)
      _mm256_store_ps(lanes<f32>(w, d[r]) + 8 * h, result[r / 2][r % 2][h]);
  }
}

#endif

}  // namespace lssar::vdev::LSSAR_SIMD
