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

inline constexpr int kSwizzleRows = 8;
inline constexpr int kSwizzleAlignment = kSwizzleBytes * kSwizzleRows;

// Upper words of a product's descriptors, the same for all tiles: 128-byte swizzle, groups of 8
// rows one after another. NOTE: were they constants to the assembler, it would write them anew for
// every wgmma. So the high bits of an address that changes from tile to tile, zeros (a cluster's
// ranks end below bit 28), are added; others for each operand, since a word that two operands share
// is copied for each wgmma, too. Products that follow one another best share them.
struct DescriptorWords {
  u32 high;
  u32 one;  // 1, which the assembler does not know: see advance

  explicit LSSAR_DEVICE DescriptorWords(u32 address)
      : high(kWord + (address >> 30)), one(1 + (address >> 29)) {}

  // The descriptor of what is `distance` bytes, a constant, further on. NOTE: as one wide
  // multiply-add, where an addition to the lower word would have the upper one copied as well.
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

  // The same tile, at an address that the compiler takes for new: descriptors made from it are not
  // kept in registers from one use to the next, where they would crowd out accumulators.
  LSSAR_DEVICE SwizzledTile renewed() const {
    SwizzledTile tile = *this;
    pin_register(tile.base);
    return tile;
  }

  // Descriptors (PTX ISA, "matrix descriptor"), in units of 16 bytes: bits 0-13 address, 16-29
  // distance of chunks along the non-contiguous dimension, 32-45 distance of groups of 8 rows,
  // 62-63 = 1: 128-byte swizzle. Those of a product's later steps are DescriptorWords::advance'd by
  // a distance. NOTE: in a cluster the addresses of a block's own shared memory have its rank from
  // bit 24 on, which would come to lie in the chunks' distance: only 18 bits are taken. Shared
  // memory is smaller than that, so nothing is carried out of bits 0-13 later on.
  static LSSAR_DEVICE u64 descriptor(u32 address, u32 chunk_distance, u32 high) {
    constexpr u32 kPlace = (1u << 18) - 1;
    return pack_words((chunk_distance >> 4) << 16 | (address & kPlace) >> 4, high);
  }

  // Rows from row0 (a multiple of 8) are rows of a, or columns of b; the depth is the first 16
  // columns.
  LSSAR_DEVICE u64 by_rows(int row0, u32 high) const {
    return descriptor(base + row0 * kSwizzleBytes, kVectorBytes, high);
  }
  // To the 16 columns from 16 * step.
  static constexpr LSSAR_DEVICE u32 columns_distance(int step) {
    constexpr int kStepsPerChunk = kChunkCols / kDepth;
    return step / kStepsPerChunk * kChunkBytes + step % kStepsPerChunk * kDepth * 2;
  }

  // Columns from col0 are rows of a, or columns of b; the depth is the first 16 rows. For the
  // transposed forms of wgmma. REQUIRES: col0 is a multiple of 64, or all columns used are in its
  // chunk and it is a multiple of 8.
  LSSAR_DEVICE u64 by_columns(int col0, u32 high) const {
    return descriptor(base + col0 / kChunkCols * kChunkBytes + col0 % kChunkCols * 2, kChunkBytes,
                      high);
  }
  // From by_rows(0) to by_columns(0).
  static constexpr u32 kToColumns = (kChunkBytes - kVectorBytes) << 16;
  // To the 16 rows from 16 * step.
  static constexpr LSSAR_DEVICE u32 rows_distance(int step) {
    return step * kDepth * kSwizzleBytes;
  }
};

}  // namespace lssar_device
