// Where the bytes of a TMA box lie: turns a tensor map, coordinates and a shared address into rows.
// Copies rows between global memory, a buffer in the order of the box, and shared memory. The
// caller checks the bounds of memory.
//
// Used by the bulk copies. Pure functions. Threads: plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "device/tensor_map.h"

namespace lssar::vdev {

// One innermost row of a box: `bytes` from `shared` on, before swizzling. Its bytes [begin, end)
// lie in the tensor, from `global + begin` on. Loads fill the others, stores drop them.
struct BoxRow {
  uint64_t global;  // address of byte 0 of the row, which may lie outside the tensor
  uint32_t shared;
  uint32_t bytes;
  uint32_t begin;
  uint32_t end;  // = begin: the whole row is outside
};

// The address at which TMA and wgmma put what belongs at `address`. A swizzle permutes 16-byte
// chunks by bits of the absolute shared address: 128 bytes [4:6] ^= [7:9], 64 [4:5] ^= [7:8], 32
// [4] ^= [7].
constexpr uint32_t swizzle_address(TensorSwizzle swizzle, uint32_t address) {
  const uint32_t chunks = (1u << static_cast<uint32_t>(swizzle)) - 1;  // 0, 1, 3 or 7
  return address ^ ((address >> 7 & chunks) << 4);
}

class TensorBox {
 public:
  // `coordinates` are those of the box's first element, one per dimension, innermost first; any
  // value. `shared` is where the box begins, a multiple of 16. REQUIRES: the map is valid and
  // outlives this.
  TensorBox(const TensorMapRequest& map, const int32_t* coordinates, uint32_t shared);

  // Bytes of the full box, including elements outside the tensor. A load's barrier counts these.
  uint32_t bytes() const { return num_rows_ * row_bytes_; }
  uint32_t num_rows() const { return num_rows_; }
  uint32_t row_bytes() const { return row_bytes_; }

  // Replaces the vector's content. The order is that of shared memory before swizzling.
  void rows(std::vector<BoxRow>& rows) const;

 private:
  const TensorMapRequest& map_;
  int64_t first_[kMaxTensorRank] = {};   // coordinate of the box's first element
  uint32_t count_[kMaxTensorRank] = {};  // elements of the box, per dimension
  uint32_t shared_;
  uint32_t row_bytes_;
  uint32_t num_rows_ = 1;
  BoxRow inner_;  // row 0, as far as dimension 0 decides it
};

// Copies `bytes` (a multiple of 16) of `buffer` to shared memory from `address` on, and back. Byte
// 0 of shared memory is at `memory`.
void scatter_swizzled(TensorSwizzle swizzle, const uint8_t* buffer, uint32_t bytes,
                      uint32_t address, uint8_t* memory);
void gather_swizzled(TensorSwizzle swizzle, const uint8_t* memory, uint32_t address, uint32_t bytes,
                     uint8_t* buffer);

// Reads the rows of a box from global memory to `buffer`, one after another. `pattern` fills what
// is outside the tensor.
void read_rows(const std::vector<BoxRow>& rows, const uint8_t pattern[16], uint8_t* buffer);

// What loads write for elements outside the tensor: 16 bytes of whole elements. NOTE: PTX does not
// say which NaN fills; this is the one that arithmetic gives.
void fill_pattern(TensorDataType type, TensorFill fill, uint8_t pattern[16]);

// Whether loads change elements of this type (flush subnormals, round to tf32).
bool converts_on_load(TensorDataType type);
// Converts in place; `bytes` is a multiple of 4. NOTE: how TMA rounds to tf32 is not documented.
// This rounds to nearest, ties away from zero, as cvt.rna.tf32 does.
void convert_on_load(TensorDataType type, uint8_t* data, uint32_t bytes);

}  // namespace lssar::vdev
