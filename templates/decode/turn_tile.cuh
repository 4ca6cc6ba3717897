// Rotary positions of few queries: turns the rows of a tile in shared memory, as kernels/rotate.cuh
// turns rows in memory, with the same bits. So keys are read once, and no turned ones are written.
//
// Eight lanes share a row. The tables of cosines and sines are where a backward has grad_q and
// grad_k: only a forward divides keys.
#pragma once

#include "templates/kernels/rotate.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// Eight elements of a row, from a multiple of eight on.
template <class Tile>
LSSAR_DEVICE void load_tile_chunk(float (&values)[kChunkElems], Tile tile, int row, int col) {
  using Element = typename Tile::Element;
  if constexpr (sizeof(Element) == 2) {
    u32 packed[4];
    load_shared(packed, tile.address(row, col));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      unpack(static_cast<Element*>(nullptr), packed[i], values[2 * i], values[2 * i + 1]);
  } else {
    float halves[2][4];
    load_shared(halves[0], tile.address(row, col));
    load_shared(halves[1], tile.address(row, col + 4));
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) values[i] = halves[i / 4][i % 4];
  }
}

template <class Tile>
LSSAR_DEVICE void store_tile_chunk(Tile tile, int row, int col,
                                   const float (&values)[kChunkElems]) {
  using Element = typename Tile::Element;
  if constexpr (sizeof(Element) == 2) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack<Element>(values[2 * i], values[2 * i + 1]);
    store_shared(tile.address(row, col), packed);
  } else {
    store_shared(tile.address(row, col), {values[0], values[1], values[2], values[3]});
    store_shared(tile.address(row, col + 4), {values[4], values[5], values[6], values[7]});
  }
}

// One element. A lane that stores one owns the row: 16-bit elements share words.
template <class Tile>
LSSAR_DEVICE float load_tile_element(Tile tile, int row, int col) {
  using Element = typename Tile::Element;
  if constexpr (sizeof(Element) == 2) {
    u32 pair;
    float low, high;
    load_shared(pair, tile.address(row, col & ~1));
    unpack(static_cast<Element*>(nullptr), pair, low, high);
    return col % 2 == 0 ? low : high;
  } else {
    float value;
    load_shared(value, tile.address(row, col));
    return value;
  }
}

template <class Tile>
LSSAR_DEVICE void store_tile_element(Tile tile, int row, int col, float value) {
  using Element = typename Tile::Element;
  if constexpr (sizeof(Element) == 2) {
    const float other = load_tile_element(tile, row, col ^ 1);
    store_shared(tile.address(row, col & ~1),
                 col % 2 == 0 ? pack<Element>(value, other) : pack<Element>(other, value));
  } else {
    store_shared(tile.address(row, col), value);
  }
}

// Numbers of a table. A call's tables are aligned to 4 bytes, and mostly to 16.
template <int kCount>
LSSAR_DEVICE void load_table(float (&values)[kCount], const float* from, bool is_aligned) {
  if (is_aligned) {
#pragma unroll
    for (int first = 0; first < kCount; first += 4) {
      float four[4];
      load_global_16(four, from + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) values[first + i] = four[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = from[i];
  }
}

// `is_aligned`: both tables to 16 bytes.
template <class Config, class Tile>
LSSAR_DEVICE void turn_tile_row(Tile tile, int row, const float* cos, const float* sin,
                                bool is_aligned) {
  constexpr int kPairs = Config::kRotaryDim / 2;
  constexpr int kStep = kRowGroupThreads * kChunkElems;
  if constexpr (Config::kRotaryInterleaved && Config::kRotaryDim % kChunkElems == 0) {
    for (int col = row_group_lane() * kChunkElems; col < Config::kRotaryDim; col += kStep) {
      float x[kChunkElems], c[kChunkElems / 2], s[kChunkElems / 2];
      load_table(c, cos + col / 2, is_aligned);
      load_table(s, sin + col / 2, is_aligned);
      load_tile_chunk(x, tile, row, col);
#pragma unroll
      for (int i = 0; i < kChunkElems; i += 2) turn<false>(x[i], x[i + 1], c[i / 2], s[i / 2]);
      store_tile_chunk(tile, row, col, x);
    }
  } else if constexpr (!Config::kRotaryInterleaved && kPairs % kChunkElems == 0) {
    for (int col = row_group_lane() * kChunkElems; col < kPairs; col += kStep) {
      float a[kChunkElems], b[kChunkElems], c[kChunkElems], s[kChunkElems];
      load_table(c, cos + col, is_aligned);
      load_table(s, sin + col, is_aligned);
      load_tile_chunk(a, tile, row, col);
      load_tile_chunk(b, tile, row, kPairs + col);
#pragma unroll
      for (int i = 0; i < kChunkElems; ++i) turn<false>(a[i], b[i], c[i], s[i]);
      store_tile_chunk(tile, row, col, a);
      store_tile_chunk(tile, row, kPairs + col, b);
    }
  } else if (row_group_lane() == 0) {
    constexpr int kApart = Config::kRotaryInterleaved ? 1 : kPairs;
    for (int pair = 0; pair < kPairs; ++pair) {
      const int col = Config::kRotaryInterleaved ? 2 * pair : pair;
      float a = load_tile_element(tile, row, col);
      float b = load_tile_element(tile, row, col + kApart);
      turn<false>(a, b, cos[pair], sin[pair]);
      store_tile_element(tile, row, col, a);
      store_tile_element(tile, row, col + kApart, b);
    }
  }
}

// Turns the rows of a tile. `position_of(row)` is a row's position; below 0 it stays as it is.
template <class Config, int kThreads, class Tile, class PositionOf>
LSSAR_DEVICE void turn_tile(Tile tile, const AttentionParams& params,
                            const PositionOf& position_of) {
  constexpr int kPairs = Config::kRotaryDim / 2;
  const float* const cos = static_cast<const float*>(params.grad_q.data);
  const float* const sin = static_cast<const float*>(params.grad_k.data);
  const bool is_aligned =
      ((reinterpret_cast<u64>(cos) | reinterpret_cast<u64>(sin)) % kVectorBytes) == 0;
#pragma unroll 2
  for (int first = 0; first < Tile::kRows; first += kThreads / kRowGroupThreads) {
    const int row = first + row_group_index();
    const i64 position = row < Tile::kRows ? position_of(row) : -1;
    if (position < 0) continue;
    turn_tile_row<Config>(tile, row, cos + position * kPairs, sin + position * kPairs, is_aligned);
  }
}

}  // namespace lssar_device
