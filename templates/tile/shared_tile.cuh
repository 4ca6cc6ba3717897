// A tile of rows in shared memory.
//
// Rows are padded by 16 bytes, which makes the row length odd in units of 16 bytes. So eight rows
// of one column (an ldmatrix, or the vector loads of a quad) fall on eight different groups of
// banks.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

template <class T, int ROWS, int COLS>
struct SharedTile {
  static_assert(COLS * sizeof(T) % (2 * kVectorBytes) == 0,
                "a row must be a whole, even number of 16-byte vectors");
  using Element = T;
  static constexpr int kRows = ROWS;
  static constexpr int kCols = COLS;
  static constexpr int kRowBytes = COLS * static_cast<int>(sizeof(T)) + kVectorBytes;
  static constexpr int kBytes = ROWS * kRowBytes;
  static constexpr int kVectorElems = kVectorBytes / static_cast<int>(sizeof(T));
  static constexpr int kVectorsPerRow = COLS / kVectorElems;

  u32 base;

  LSSAR_DEVICE u32 address(int row, int col) const {
    return base + row * kRowBytes + col * static_cast<int>(sizeof(T));
  }
};

}  // namespace lssar_device
