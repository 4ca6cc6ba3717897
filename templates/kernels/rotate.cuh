// Rotary positions: turns q and k before everything else, and their gradients back at the end.
//
//   x_a, x_b -> x_a cos - x_b sin, x_b cos + x_a sin      back: with -sin
//
// Pair c of a row at position m has the angle of cos[m, c] and sin[m, c]. Its columns are c and
// c + kRotaryDim / 2, or 2c and 2c + 1 with kRotaryInterleaved. Columns from kRotaryDim on stay.
//
// One lane reads and writes a pair, so a tensor may be turned in place. Eight lanes per row of
// [batch, heads, rows].
#pragma once

#include "templates/kernels/rotary_params.cuh"
#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <bool kBack>
LSSAR_DEVICE void turn(float& a, float& b, float cos, float sin) {
  const float s = kBack ? -sin : sin;
  const float turned = fma(a, cos, -(b * s));
  b = fma(b, cos, a * s);
  a = turned;
}

// As load_chunk, from memory that the kernel may write.
template <bool kAligned, class T>
LSSAR_DEVICE void load_written_chunk(float (&values)[kChunkElems], const T* source) {
  if constexpr (kAligned && sizeof(T) == 2) {
    u32 packed[4];
    load_written_16(packed, source);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      unpack(static_cast<T*>(nullptr), packed[i], values[2 * i], values[2 * i + 1]);
  } else {
    load_chunk<kAligned>(values, source);
  }
}

// kRotaryInterleaved: a chunk has four pairs.
template <class Config, bool kBack>
LSSAR_DEVICE void turn_neighbours(typename Config::Element* to,
                                  const typename Config::Element* from, const float* cos,
                                  const float* sin) {
  for (int col = row_group_lane() * kChunkElems; col < Config::kRotaryDim;
       col += kRowGroupThreads * kChunkElems) {
    float x[kChunkElems];
    load_written_chunk<Config::kIsAligned>(x, from + col);
#pragma unroll
    for (int i = 0; i < kChunkElems; i += 2)
      turn<kBack>(x[i], x[i + 1], cos[(col + i) / 2], sin[(col + i) / 2]);
    store_chunk<Config::kIsAligned || !kBack>(to + col, x);
  }
}

// Else: a chunk of the first half and one of the second have eight pairs.
template <class Config, bool kBack>
LSSAR_DEVICE void turn_halves(typename Config::Element* to, const typename Config::Element* from,
                              const float* cos, const float* sin) {
  constexpr int kPairs = Config::kRotaryDim / 2;
  for (int col = row_group_lane() * kChunkElems; col < kPairs;
       col += kRowGroupThreads * kChunkElems) {
    float a[kChunkElems], b[kChunkElems];
    load_written_chunk<Config::kIsAligned>(a, from + col);
    load_written_chunk<Config::kIsAligned>(b, from + kPairs + col);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) turn<kBack>(a[i], b[i], cos[col + i], sin[col + i]);
    store_chunk<Config::kIsAligned || !kBack>(to + col, a);
    store_chunk<Config::kIsAligned || !kBack>(to + kPairs + col, b);
  }
}

// Pairs one by one, where chunks do not begin at multiples of 16 bytes.
template <class Config, bool kBack>
LSSAR_DEVICE void turn_pairs(typename Config::Element* to, const typename Config::Element* from,
                             const float* cos, const float* sin) {
  constexpr int kPairs = Config::kRotaryDim / 2;
  constexpr int kApart = Config::kRotaryInterleaved ? 1 : kPairs;
  for (int pair = row_group_lane(); pair < kPairs; pair += kRowGroupThreads) {
    const int col = Config::kRotaryInterleaved ? 2 * pair : pair;
    float a = to_float(from[col]), b = to_float(from[col + kApart]);
    turn<kBack>(a, b, cos[pair], sin[pair]);
    from_float(to[col], a);
    from_float(to[col + kApart], b);
  }
}

template <class Config>
LSSAR_DEVICE void copy_other_columns(typename Config::Element* to,
                                     const typename Config::Element* from) {
  constexpr bool kByChunks = Config::kRotaryDim % kChunkElems == 0;
  constexpr int kElems = kByChunks ? kChunkElems : 1;
  for (int col = Config::kRotaryDim + row_group_lane() * kElems; col < Config::kHeadDim;
       col += kRowGroupThreads * kElems) {
    if constexpr (kByChunks) {
      float x[kChunkElems];
      load_written_chunk<Config::kIsAligned>(x, from + col);
      store_chunk<true>(to + col, x);
    } else {
      to[col] = from[col];
    }
  }
}

template <class Config, bool kBack>
LSSAR_DEVICE void turn_rows(const RotaryParams& params) {
  using Element = typename Config::Element;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  constexpr int kPairs = Config::kRotaryDim / 2;
  const BlockPlace place = block_place<Config>(ceil_div(params.rows, kRowsPerBlock), params.heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  if (row >= params.rows) return;
  const Element* from = row_pointer<const Element>(params.from, place.batch, place.head, row);
  Element* to = row_pointer<Element>(params.to, place.batch, place.head, row);
  const float* cos = params.cos + (params.first_position + row) * kPairs;
  const float* sin = params.sin + (params.first_position + row) * kPairs;
  if constexpr (Config::kRotaryInterleaved && Config::kRotaryDim % kChunkElems == 0) {
    turn_neighbours<Config, kBack>(to, from, cos, sin);
  } else if constexpr (!Config::kRotaryInterleaved && kPairs % kChunkElems == 0) {
    turn_halves<Config, kBack>(to, from, cos, sin);
  } else {
    turn_pairs<Config, kBack>(to, from, cos, sin);
  }
  if constexpr (!kBack) copy_other_columns<Config>(to, from);
}

// Into the workspace.
template <class Config>
LSSAR_DEVICE void rotate(const RotaryParams& params) {
  turn_rows<Config, false>(params);
}

// In place.
template <class Config>
LSSAR_DEVICE void rotate_back(const RotaryParams& params) {
  turn_rows<Config, true>(params);
}

}  // namespace lssar_device
