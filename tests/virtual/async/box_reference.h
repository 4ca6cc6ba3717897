// Which byte of a tensor each byte of a TMA box is, one element at a time: what the virtual
// device's boxes are compared to.
#pragma once

#include <cstdint>
#include <map>

#include "device/tensor_map.h"

namespace lssar::test {

inline constexpr uint64_t kOutsideTensor = ~uint64_t{0};

// The global address of each byte of the box, by its address in shared memory.
using ByteMap = std::map<uint32_t, uint64_t>;

// Where the byte at an address goes, by the number of its 16-byte chunk and of its 128-byte line.
uint32_t swizzled(TensorSwizzle swizzle, uint32_t address);

ByteMap box_bytes(const TensorMapRequest& map, const int32_t* coordinates, uint32_t shared);

}  // namespace lssar::test
