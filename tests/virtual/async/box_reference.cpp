#include "tests/virtual/async/box_reference.h"

namespace lssar::test {

uint32_t swizzled(TensorSwizzle swizzle, uint32_t address) {
  const uint32_t chunks = swizzle == TensorSwizzle::k128Bytes  ? 8
                          : swizzle == TensorSwizzle::k64Bytes ? 4
                          : swizzle == TensorSwizzle::k32Bytes ? 2
                                                               : 1;
  const uint32_t group = address / (16 * chunks);
  const uint32_t chunk = address / 16 % chunks;
  const uint32_t line = address / 128 % chunks;
  return group * 16 * chunks + (chunk ^ line) * 16 + address % 16;
}

ByteMap box_bytes(const TensorMapRequest& r, const int32_t* at, uint32_t shared) {
  const uint32_t element = tensor_element_bytes(r.type);
  uint32_t count[5] = {1, 1, 1, 1, 1};
  uint32_t step[5] = {1, 1, 1, 1, 1};
  for (uint32_t d = 0; d < r.rank; ++d) {
    if (d > 0) step[d] = r.element_strides[d];
    while (count[d] * step[d] < r.box_dims[d]) ++count[d];
  }
  ByteMap bytes;
  uint32_t place = shared;
  uint32_t i[5];
  for (i[4] = 0; i[4] < count[4]; ++i[4])
    for (i[3] = 0; i[3] < count[3]; ++i[3])
      for (i[2] = 0; i[2] < count[2]; ++i[2])
        for (i[1] = 0; i[1] < count[1]; ++i[1])
          for (i[0] = 0; i[0] < count[0]; ++i[0]) {
            bool inside = true;
            uint64_t address = r.global_address;
            for (uint32_t d = 0; d < r.rank; ++d) {
              const int64_t c = int64_t{at[d]} + int64_t{i[d]} * step[d];
              if (c < 0 || static_cast<uint64_t>(c) >= r.global_dims[d]) {
                inside = false;
              } else {
                address += static_cast<uint64_t>(c) * (d == 0 ? element : r.global_strides[d - 1]);
              }
            }
            for (uint32_t b = 0; b < element; ++b, ++place) {
              bytes[swizzled(r.swizzle, place)] = inside ? address + b : kOutsideTensor;
            }
          }
  return bytes;
}

}  // namespace lssar::test
