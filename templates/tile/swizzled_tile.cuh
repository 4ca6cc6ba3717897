// A tile of 16-bit elements in shared memory as TMA's 128-byte swizzle lays it out and wgmma reads
// it.
//
// Columns are cut into chunks of 64 (128 bytes), each ROWS x 128 bytes, one after another. In a row
// of a chunk the 16-byte vectors are permuted by the row: vector v of row r is at v ^ (r % 8). So
// eight rows of one column lie on different banks. `base` is 1024-byte aligned.
#pragma once

#include "templates/ptx/math.cuh"
#include "templates/ptx/wgmma.cuh"

namespace lssar_device {

inline constexpr int kSwizzleBytes = 128;
inline constexpr int kSwizzleRows = 8;
inline constexpr int kSwizzleAlignment = kSwizzleBytes * kSwizzleRows;

// Upper words of a product's descriptors, the same for all tiles: 128-byte swizzle, groups of 8
// rows one after another. NOTE: were they constants to the assembler, it would write them anew for
// every wgmma. So the high bits of an address that changes from tile to tile, zeros, are added;
// others for each operand, since a word that two operands share is copied for each wgmma, too.
// Products that follow one another best share them.
struct DescriptorWords {
  u32 left;  // of operands that both have descriptors
  u32 right;
  u32 right_of_registers;  // where the left one is in registers

  explicit LSSAR_DEVICE DescriptorWords(u32 address)
      : left(kWord + (address >> 29)),
        right(kWord + (address >> 30)),
        right_of_registers(kWord + (address >> 31)) {}

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

  // The same tile, at an address that the compiler takes for new: descriptors made from it are not
  // kept in registers from one use to the next, where they would crowd out accumulators.
  LSSAR_DEVICE SwizzledTile renewed() const {
    SwizzledTile tile = *this;
    pin_register(tile.base);
    return tile;
  }

  // Descriptors (PTX ISA, "matrix descriptor"), in units of 16 bytes: bits 0-13 address, 16-29
  // distance of chunks along the non-contiguous dimension, 32-45 distance of groups of 8 rows,
  // 62-63 = 1: 128-byte swizzle. `offset`, a constant, is added last: one instruction per product.
  // NOTE: shared addresses are below 2^18, so nothing is carried into the distance.
  static LSSAR_DEVICE u64 descriptor(u32 address, u32 chunk_distance, u32 offset, u32 high) {
    const u32 low = ((chunk_distance >> 4) << 16 | address >> 4) + (offset >> 4);
    return pack_words(low, high);
  }

  // Rows from row0 (a multiple of 8) are rows of a, or columns of b; the depth is the 16 columns
  // from 16 * step.
  LSSAR_DEVICE u64 by_rows(int row0, int step, u32 high) const {
    constexpr int kStepsPerChunk = kChunkCols / kDepth;
    return descriptor(base + row0 * kSwizzleBytes, kVectorBytes,
                      step / kStepsPerChunk * kChunkBytes + step % kStepsPerChunk * kDepth * 2,
                      high);
  }

  // Columns from col0 are rows of a, or columns of b; the depth is the 16 rows from 16 * step. For
  // the transposed forms of wgmma. REQUIRES: col0 is a multiple of 64, or all columns used are in
  // its chunk and it is a multiple of 8.
  LSSAR_DEVICE u64 by_columns(int col0, int step, u32 high) const {
    return descriptor(base + col0 / kChunkCols * kChunkBytes + col0 % kChunkCols * 2, kChunkBytes,
                      step * kDepth * kSwizzleBytes, high);
  }
};

}  // namespace lssar_device
