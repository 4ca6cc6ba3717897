// Within windows: loads of keys and values. Those that no row of the block sees become zero, as
// those past the end. They may be NaN, and 0 times NaN is NaN.
#pragma once

#include "templates/tile/load_tile.cuh"
#include "templates/tile/window.cuh"

namespace lssar_device {

// As load_tile. `first`: the tile's first key, whose row is at `source`.
template <class Config, int kThreads, class Tile>
LSSAR_DEVICE void load_seen_tile(Tile tile, const typename Tile::Element* source, i64 row_stride,
                                 const VisibleKeys& seen, i64 first, int valid_cols) {
  constexpr int kVectors = Tile::kRows * Tile::kVectorsPerRow;
#pragma unroll 2
  for (int begin = 0; begin < kVectors; begin += kThreads) {
    const int vector_idx = begin + thread_index();
    if (kVectors % kThreads != 0 && vector_idx >= kVectors) break;
    const int row = vector_idx / Tile::kVectorsPerRow;
    const int col = vector_idx % Tile::kVectorsPerRow * Tile::kVectorElems;
    const bool valid = seen.has(first + row) && col < valid_cols;
    const typename Tile::Element* from = source + (valid ? row * row_stride + col : 0);
    if constexpr (Config::kIsAligned) {
      copy_async_16(tile.address(row, col), from, valid);
    } else {
      u32 vector[4];
      gather_vector(vector, from, valid);
      store_shared(tile.address(row, col), vector);
    }
  }
}

// Loads one number of each of kCount keys.
template <int kThreads, int kCount>
LSSAR_DEVICE void load_seen_floats(u32 shared, const float* source, const VisibleKeys& seen,
                                   i64 first) {
#pragma unroll
  for (int begin = 0; begin < kCount; begin += kThreads) {
    const int i = begin + thread_index();
    if (kCount % kThreads != 0 && i >= kCount) break;
    const bool valid = seen.has(first + i);
    copy_async_4(shared + i * 4, source + (valid ? i : 0), valid);
  }
}

}  // namespace lssar_device
