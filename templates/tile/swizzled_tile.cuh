// A 16-bit tile in the 128-byte swizzle of TMA and wgmma.
//
// Columns are cut into chunks of 64 (128 bytes). A chunk is ROWS x 128 bytes, and chunks follow one
// another. In a chunk, the row permutes the 16-byte vectors: vector v of row r is at v ^ (r % 8).
// So eight rows of one column lie on different banks. `base` is 1024-byte aligned.
#pragma once

#include "templates/ptx/math.cuh"
#include "templates/ptx/wgmma.cuh"

namespace lssar_device {

inline constexpr int kSwizzleRows = 8;
inline constexpr int kSwizzleAlignment = kSwizzleBytes * kSwizzleRows;

// The upper word of a product's descriptors, the same for all tiles: 128-byte swizzle, groups of 8
// rows one after another. If ptxas knew this word it would rematerialise it before every wgmma. So
// high bits of an address, which are zeros, are added to it.
//
// The address changes from tile to tile. Its high bits are zeros, because ranks in a cluster end
// below bit 28. `high` and `one` use different bits, because ptxas also copies a word that two
// operands share for each wgmma. Consecutive products share one DescriptorWords.
struct DescriptorWords {
  u32 high;
  u32 one;  // 1, but ptxas does not know that: see advance

  explicit LSSAR_DEVICE DescriptorWords(u32 address)
      : high(kWord + (address >> 30)), one(1 + (address >> 29)) {}

  // The descriptor `distance` bytes (a constant) further on.
  //
  // NOTE: it is one wide multiply-add, because an addition to the lower word would also copy the
  // upper one.
  LSSAR_DEVICE u64 advance(u64 descriptor, u32 distance) const {
    return distance == 0 ? descriptor : descriptor + multiply_wide(one, distance >> 4);
  }

 private:
  static constexpr u32 kSwizzle128 = u32{1} << 30;
  static constexpr u32 kRowGroupDistance = kSwizzleAlignment >> 4;
  static constexpr u32 kWord = kSwizzle128 | kRowGroupDistance;
};

template <class T, int ROWS, int COLS>
struct SwizzledTile {
  static_assert(sizeof(T) == 2, "chunks are counted in 16-bit elements");
  static_assert(ROWS % kSwizzleRows == 0, "the swizzle repeats every 8 rows");
  static_assert(COLS % 8 == 0, "a row must be whole 16-byte vectors");
  using Element = T;
  static constexpr int kRows = ROWS;
  static constexpr int kCols = COLS;
  static constexpr int kDepth = 16;      // of one wgmma
  static constexpr int kChunkCols = 64;  // columns of one TMA box
  static constexpr int kNumChunks = (COLS + kChunkCols - 1) / kChunkCols;
  static constexpr int kChunkBytes = ROWS * kSwizzleBytes;
  static constexpr int kBytes = kNumChunks * kChunkBytes;

  u32 base;

  LSSAR_DEVICE u32 address(int row, int col) const {
    const int in_chunk = col % kChunkCols;
    return base + col / kChunkCols * kChunkBytes  // chunk
           + row * kSwizzleBytes                  // row
           + ((in_chunk / 8) ^ (row % kSwizzleRows)) * kVectorBytes + in_chunk % 8 * 2;
  }

  // Descriptors (PTX ISA, "matrix descriptor"), in units of 16 bytes: bits 0-13 address, 16-29
  // distance of chunks along the non-contiguous dimension, 32-45 distance of groups of 8 rows,
  // 62-63 = 1: 128-byte swizzle.
  //
  // DescriptorWords::advance makes those of a product's later steps. NOTE: in a cluster, addresses
  // of a block's own shared memory have its rank from bit 24 on, which would fall into the distance
  // of chunks. So only 18 bits are taken. Shared memory is smaller than that, so no later addition
  // carries out of bits 0-13.
  static LSSAR_DEVICE u64 descriptor(u32 address, u32 chunk_distance, u32 high) {
    constexpr u32 kPlace = (1u << 18) - 1;
    return pack_words((chunk_distance >> 4) << 16 | (address & kPlace) >> 4, high);
  }

  // Describes rows from row0 (a multiple of 8) on, as rows of a or columns of b. Depth: 16 columns.
  LSSAR_DEVICE u64 by_rows(int row0, u32 high) const {
    return descriptor(base + row0 * kSwizzleBytes, kVectorBytes, high);
  }
  // The distance to the 16 columns that start at 16 * step.
  static constexpr LSSAR_DEVICE u32 columns_distance(int step) {
    constexpr int kStepsPerChunk = kChunkCols / kDepth;
    return step / kStepsPerChunk * kChunkBytes + step % kStepsPerChunk * kDepth * 2;
  }

  // Describes columns from col0 on, as rows of a or columns of b, for the transposed forms of
  // wgmma. The depth is the first 16 rows. REQUIRES: col0 is a multiple of 64; or it is a multiple
  // of 8 and all columns used are in its chunk.
  LSSAR_DEVICE u64 by_columns(int col0, u32 high) const {
    return descriptor(base + col0 / kChunkCols * kChunkBytes + col0 % kChunkCols * 2, kChunkBytes,
                      high);
  }
  // by_columns(0) is by_rows(0) plus this.
  static constexpr u32 kToColumns = (kChunkBytes - kVectorBytes) << 16;
  // The distance to the 16 rows that start at 16 * step.
  static constexpr LSSAR_DEVICE u32 rows_distance(int step) {
    return step * kDepth * kSwizzleBytes;
  }
};

}  // namespace lssar_device
