// The matrices in shared memory that wgmma reads: what the 64 bits of a matrix descriptor say, and
// where each 16 bytes of an operand lie. The warp-group instructions use it when they are issued.
// Pure functions.
#pragma once

#include <cstdint>

namespace lssar::vdev {

enum class MatrixSwizzle : uint8_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };  // as encoded

// Addresses and distances in bytes. The matrix has its M or N dimension (MN) as rows and its K
// dimension as columns. `leading` and `stride` are the distances between
//                          leading                          stride
//   K-major, no swizzle    16 bytes of K                    8 rows
//   K-major, swizzled      (not used)                       8 rows
//   MN-major, no swizzle   8 columns                        8 rows
//   MN-major, swizzled     rows of the swizzle's width      8 columns
struct MatrixDescriptor {
  uint32_t start = 0;
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint32_t base_offset = 0;  // 128-byte rows from a pattern boundary to where the pattern begins
  MatrixSwizzle swizzle = MatrixSwizzle::kNone;
};

// Null, or the reason why the bits are no descriptor of sm_90.
const char* decode_matrix_descriptor(uint64_t bits, MatrixDescriptor& descriptor);

// Shared-memory offsets of the chunks of `rows` rows from row `first` on, 32 bytes of K deep: 2 per
// row. `first` and `rows` are multiples of 8. Offsets are not compared with the size of shared
// memory.
//   K-major: out[2 r + c] is the c-th half of row r
//   MN-major (16-bit elements, 16 columns): out[16 (r / 8) + k] are rows r ... r + 7 of column k
void find_matrix_chunks(const MatrixDescriptor& descriptor, bool mn_major, uint32_t first,
                        uint32_t rows, uint32_t* out);

}  // namespace lssar::vdev
