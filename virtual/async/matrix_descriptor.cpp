#include "virtual/async/matrix_descriptor.h"

#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

// Fields hold bits 4 to 17 of a byte count.
uint32_t field(uint64_t bits, int first) {
  return static_cast<uint32_t>(bits >> first & 0x3fff) << 4;
}

constexpr uint32_t kPattern = 1024;  // bytes after which every swizzle repeats

uint32_t row_bytes(MatrixSwizzle swizzle) {
  switch (swizzle) {
    case MatrixSwizzle::k128:
      return 128;
    case MatrixSwizzle::k64:
      return 64;
    case MatrixSwizzle::k32:
      return 32;
    case MatrixSwizzle::kNone:
      break;
  }
  return kChunkBytes;
}

// A swizzle acts on the address itself, for every operand alike: chunks within 128 bytes change
// places by the number of the 128-byte row since the pattern began.
struct Swizzler {
  uint32_t mask;
  uint32_t base_offset;
  uint32_t operator()(uint32_t address) const {
    return address ^ ((((address >> 7) - base_offset) & mask) << 4);
  }
};

}  // namespace

const char* decode_matrix_descriptor(uint64_t bits, MatrixDescriptor& descriptor) {
  constexpr uint64_t kReserved =
      uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{7} << 46 | uint64_t{0x3ff} << 52;
  if ((bits & uint64_t{7} << 46) == uint64_t{1} << 46) {
    return "a matrix descriptor of sm_100 (bits 46-48 are 1)";
  }
  if ((bits & kReserved) != 0) {
    return "reserved bits of a matrix descriptor are set (14-15, 30-31, 46-48 or 52-61)";
  }
  descriptor.start = field(bits, 0);
  descriptor.leading = field(bits, 16);
  descriptor.stride = field(bits, 32);
  descriptor.base_offset = static_cast<uint32_t>(bits >> 49 & 7);
  descriptor.swizzle = static_cast<MatrixSwizzle>(bits >> 62);
  return nullptr;
}

void find_matrix_chunks(const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                        uint32_t* out) {
  const uint32_t width = row_bytes(d.swizzle);
  const uint32_t chunks = width / kChunkBytes;
  const bool swizzled = d.swizzle != MatrixSwizzle::kNone;
  const Swizzler place = {chunks - 1, d.base_offset};
  if (!mn_major) {
    const uint32_t next = swizzled ? kChunkBytes : d.leading;
    const bool repeats = d.stride % kPattern == 0;
    const uint32_t distinct = repeats ? 8 : rows;
    for (uint32_t i = 0; i < distinct; ++i) {
      const uint32_t r = first + i;
      const uint32_t address = d.start + (r & 7) * width + (r >> 3) * d.stride;
      out[2 * i] = place(address);
      out[2 * i + 1] = place(address + next);
    }
    for (uint32_t i = 2 * distinct; i < 2 * rows; ++i) out[i] = out[i - 16] + d.stride;
    return;
  }
  const uint32_t next_rows = swizzled ? d.leading : d.stride;
  const uint32_t next_columns = swizzled ? d.stride : d.leading;
  for (uint32_t c = first / 8; c < (first + rows) / 8; ++c, out += 16) {
    const uint32_t address = d.start + (c % chunks) * kChunkBytes + (c / chunks) * next_rows;
    for (uint32_t k = 0; k < 8; ++k) {
      out[k] = place(address + k * width);
      out[k + 8] = place(address + k * width + next_columns);
    }
  }
}

}  // namespace lssar::vdev
