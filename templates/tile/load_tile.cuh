// Loads tiles with all threads of a block. Elements outside become zero.
//
// From global to shared memory.
#pragma once

#include "templates/ptx/convert.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/tile/shared_tile.cuh"

namespace lssar_device {

// Loads a vector of 16 bytes, element by element.
template <class T>
LSSAR_DEVICE void gather_vector(u32 (&vector)[4], const T* source, bool valid) {
  constexpr int kElemsPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < kElemsPerWord; ++i) {
      if (!valid) continue;
      if constexpr (sizeof(T) == 2) {
        bits |= static_cast<u32>(source[word * kElemsPerWord + i].bits) << (16 * i);
      } else {
        bits = bits_of_float(source[word]);
      }
    }
    vector[word] = bits;
  }
}

// tile[r][c] = source[r * row_stride + c] for r < valid_rows and c < valid_cols, else 0.
// The caller waits for the copy, and a barrier must follow.
//
// valid_cols is a multiple of the elements in 16 bytes. kIsAligned: source and stride are
// multiples of 16 bytes and the copy is asynchronous; the caller commits and waits. Otherwise the
// copy goes through registers.
template <class Config, int kThreads, class Tile>
LSSAR_DEVICE void load_tile(Tile tile, const typename Tile::Element* source, i64 row_stride,
                            i64 valid_rows, int valid_cols) {
  constexpr int kVectors = Tile::kRows * Tile::kVectorsPerRow;
  // With more unrolling the addresses would take the accumulators' registers.
  constexpr int kUnroll = kVectors <= 8 * kThreads ? 8 : 2;
#pragma unroll kUnroll
  for (int first = 0; first < kVectors; first += kThreads) {
    const int vector_idx = first + thread_index();
    if (kVectors % kThreads != 0 && vector_idx >= kVectors) break;
    const int row = vector_idx / Tile::kVectorsPerRow;
    const int col = vector_idx % Tile::kVectorsPerRow * Tile::kVectorElems;
    const bool valid = row < valid_rows && col < valid_cols;
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

// shared[i] = source[i] for i < valid, else 0; i < kCount. The caller commits and waits.
template <int kThreads, int kCount>
LSSAR_DEVICE void load_floats(u32 shared, const float* source, i64 valid) {
#pragma unroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int i = first + thread_index();
    if (kCount % kThreads != 0 && i >= kCount) break;
    copy_async_4(shared + i * 4, source + (i < valid ? i : 0), i < valid);
  }
}

}  // namespace lssar_device
