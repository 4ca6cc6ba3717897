// Whole rows, each read by eight neighbouring lanes (four rows per warp).
//
// For kernels that work on rows instead of tiles.
#pragma once

#include "templates/ptx/convert.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"

namespace lssar_device {

constexpr int kChunkElems = 8;  // elements one lane reads at a time

LSSAR_DEVICE int row_group_lane() { return thread_index() % kRowGroupThreads; }
LSSAR_DEVICE int row_group_index() { return thread_index() / kRowGroupThreads; }

LSSAR_DEVICE float row_group_sum(float x) {
  x += shuffle_xor(x, 1);
  x += shuffle_xor(x, 2);
  return x + shuffle_xor(x, 4);
}

template <bool kAligned, class T>
LSSAR_DEVICE void load_chunk(float (&values)[kChunkElems], const T* source) {
  if constexpr (kAligned && sizeof(T) == 2) {
    u32 packed[4];
    load_global_16(packed, source);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      unpack(static_cast<T*>(nullptr), packed[i], values[2 * i], values[2 * i + 1]);
  } else if constexpr (kAligned) {
    float halves[2][4];
    load_global_16(halves[0], source);
    load_global_16(halves[1], source + 4);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) values[i] = halves[i / 4][i % 4];
  } else {
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) values[i] = to_float(source[i]);
  }
}

template <bool kAligned, class T>
LSSAR_DEVICE void store_chunk(T* destination, const float (&values)[kChunkElems]) {
  if constexpr (kAligned && sizeof(T) == 2) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack<T>(values[2 * i], values[2 * i + 1]);
    store_global_16(destination, packed);
  } else if constexpr (kAligned) {
    store_global_16(destination, {values[0], values[1], values[2], values[3]});
    store_global_16(destination + 4, {values[4], values[5], values[6], values[7]});
  } else {
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) from_float(destination[i], values[i]);
  }
}

// 1 / |x| from |x|^2: 0 if |x| <= 1e-12; NaN if x is not finite (or its square overflows).
//
// Without kHasNorms it is 1, or NaN as before.
template <class Config>
LSSAR_DEVICE float inverse_norm(float square) {
  constexpr float kTinySquare = 1e-24f;
  if (!(square < infinity())) return quiet_nan();
  if (!Config::kHasNorms) return 1.0f;
  return square <= kTinySquare ? 0.0f : 1.0f / square_root(square);
}

// |row|^2 in every lane of the row group.
template <int kDim, bool kAligned, class T>
LSSAR_DEVICE float row_square(const T* row) {
  float square = 0.0f;
#pragma unroll
  for (int col = 0; col < kDim; col += kRowGroupThreads * kChunkElems) {
    const int at = col + row_group_lane() * kChunkElems;
    if (at >= kDim) continue;
    float values[kChunkElems];
    load_chunk<kAligned, T>(values, row + at);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) square = fma(values[i], values[i], square);
  }
  return row_group_sum(square);
}

}  // namespace lssar_device
