// Compares matrix descriptors of wgmma with the canonical layouts, written out here as shapes and
// strides of 16-byte chunks, and with addresses computed by hand.
#include "virtual/async/matrix_descriptor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lssar::vdev {
namespace {

constexpr uint32_t kSwizzles[] = {0, 1, 2, 3};  // none, 128, 64, 32 bytes

uint64_t encode(uint32_t start, uint32_t leading, uint32_t stride, uint32_t swizzle,
                uint32_t base_offset = 0) {
  return uint64_t{start} >> 4 | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         uint64_t{base_offset} << 49 | uint64_t{swizzle} << 62;
}

std::vector<uint32_t> chunks(uint64_t bits, bool mn_major, uint32_t rows, uint32_t first = 0) {
  MatrixDescriptor descriptor;
  EXPECT_EQ(decode_matrix_descriptor(bits, descriptor), nullptr);
  std::vector<uint32_t> out(2 * rows);
  find_matrix_chunks(descriptor, mn_major, first, rows, out.data());
  return out;
}

// Bit 4 + i of an address is exchanged with itself xor bit 7 + i.
uint32_t swizzled(uint32_t address, uint32_t swizzle) {
  const uint32_t bits = swizzle == 1 ? 3 : swizzle == 2 ? 2 : swizzle == 3 ? 1 : 0;
  uint32_t result = address;
  for (uint32_t i = 0; i < bits; ++i) {
    if (address >> (7 + i) & 1) result ^= 1u << (4 + i);
  }
  return result;
}

TEST(MatrixDescriptorTest, FieldsAreDecoded) {
  MatrixDescriptor d;
  const uint64_t bits = 0x2abcull | 0x1234ull << 16 | 0x3fffull << 32 | 5ull << 49 | 2ull << 62;
  ASSERT_EQ(decode_matrix_descriptor(bits, d), nullptr);
  EXPECT_EQ(d.start, 0x2abc0u);
  EXPECT_EQ(d.leading, 0x12340u);
  EXPECT_EQ(d.stride, 0x3fff0u);
  EXPECT_EQ(d.base_offset, 5u);
  EXPECT_EQ(d.swizzle, MatrixSwizzle::k64);
}

// An address in a cluster has its block's rank from bit 24 on. If it is not masked away, it counts
// as a distance.
TEST(MatrixDescriptorTest, ARankInTheAddressComesIntoTheLeadingDistance) {
  MatrixDescriptor d;
  const uint32_t address = 3u << 24 | 0x8400;
  ASSERT_EQ(decode_matrix_descriptor(address >> 4 | encode(0, 4096, 1024, 1), d), nullptr);
  EXPECT_EQ(d.start, 0x8400u);
  EXPECT_EQ(d.leading, 4096u | 3u << 8);
}

TEST(MatrixDescriptorTest, ReservedBitsAreRefused) {
  const uint64_t good = encode(1024, 16, 1024, 1);
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const bool reserved = bit == 14 || bit == 15 || bit == 30 || bit == 31 ||
                          (bit >= 46 && bit <= 48) || (bit >= 52 && bit <= 61);
    MatrixDescriptor d;
    EXPECT_EQ(decode_matrix_descriptor(good | uint64_t{1} << bit, d) != nullptr, reserved) << bit;
  }
}

TEST(MatrixDescriptorTest, DescriptorOfTheNextArchitectureIsNamed) {
  MatrixDescriptor d;
  const char* error = decode_matrix_descriptor(encode(1024, 16, 1024, 1) | uint64_t{1} << 46, d);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error).find("sm_100"), std::string::npos);
}

// ((8, m), 2) : ((width, stride), next), next being `leading` without swizzle, else one chunk.
TEST(MatrixDescriptorTest, KMajorIsTheCanonicalLayout) {
  for (const uint32_t swizzle : kSwizzles) {
    const uint32_t width = swizzle == 1 ? 128 : swizzle == 2 ? 64 : swizzle == 3 ? 32 : 16;
    const uint32_t leading = 128 * 36;
    const uint32_t stride = swizzle == 0 ? 144 : 8 * width + 1024;
    for (uint32_t start = 4096; start < 4096 + width; start += 32) {
      const auto at = chunks(encode(start, leading, stride, swizzle), false, 256);
      for (uint32_t row = 0; row < 256; ++row) {
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t linear =
              start + row % 8 * width + row / 8 * stride + half * (swizzle == 0 ? leading : 16);
          EXPECT_EQ(at[2 * row + half], swizzled(linear, swizzle))
              << "swizzle " << swizzle << " start " << start << " row " << row << " half " << half;
        }
      }
    }
  }
}

// In chunks of 8 rows: ((c, m), (8, 2)) : ((16, LBO), (16 c, SBO)), c chunks being the swizzle's
// width; without swizzle (m, (8, 2)) : (SBO, (16, LBO)).
TEST(MatrixDescriptorTest, MnMajorIsTheCanonicalLayout) {
  for (const uint32_t swizzle : kSwizzles) {
    const uint32_t c = swizzle == 1 ? 8 : swizzle == 2 ? 4 : swizzle == 3 ? 2 : 1;
    const uint32_t leading = 6 * 1024 + 128;
    const uint32_t stride = 2 * 1024 + 256;
    const uint32_t start = 9 * 1024;
    const auto at = chunks(encode(start, leading, stride, swizzle), true, 256);
    for (uint32_t row = 0; row < 256; row += 8) {
      for (uint32_t k = 0; k < 16; ++k) {
        const uint32_t q = row / 8;
        const uint32_t linear =
            swizzle == 0 ? start + q * stride + k % 8 * 16 + k / 8 * leading
                         : start + q % c * 16 + q / c * leading + k % 8 * 16 * c + k / 8 * stride;
        EXPECT_EQ(at[16 * q + k], swizzled(linear, swizzle))
            << "swizzle " << swizzle << " row " << row << " k " << k;
      }
    }
  }
}

TEST(MatrixDescriptorTest, KMajor128ByHand) {
  const auto at = chunks(encode(1024, 16, 1024, 1), false, 16);
  EXPECT_EQ(at[2 * 0 + 0], 1024u);
  EXPECT_EQ(at[2 * 0 + 1], 1040u);
  EXPECT_EQ(at[2 * 1 + 0], 1024u + 128 + 16);  // row 1: chunks 0 and 1 change places
  EXPECT_EQ(at[2 * 1 + 1], 1024u + 128);
  EXPECT_EQ(at[2 * 7 + 1], 1024u + 7 * 128 + 6 * 16);  // 1 xor 7
  EXPECT_EQ(at[2 * 8 + 0], 2048u);
}

TEST(MatrixDescriptorTest, KStepInsideTheAtomByHand) {
  const auto at = chunks(encode(1024 + 64, 16, 1024, 1), false, 8);  // the third step of 16: 4, 5
  EXPECT_EQ(at[2 * 0 + 0], 1024u + 64);
  EXPECT_EQ(at[2 * 3 + 0], 1024u + 3 * 128 + 7 * 16);  // 4 xor 3
  EXPECT_EQ(at[2 * 3 + 1], 1024u + 3 * 128 + 6 * 16);  // 5 xor 3
}

TEST(MatrixDescriptorTest, MnMajor128ByHand) {
  const auto at = chunks(encode(0, 8192, 1024, 1), true, 128);
  EXPECT_EQ(at[16 * 0 + 0], 0u);
  EXPECT_EQ(at[16 * 1 + 2], 2u * 128 + 3 * 16);        // chunk 1 xor row 2
  EXPECT_EQ(at[16 * 7 + 7], 7u * 128);                 // 7 xor 7
  EXPECT_EQ(at[16 * 3 + 9], 1024u + 128 + 2 * 16);     // k 9: the next 8 columns
  EXPECT_EQ(at[16 * 8 + 9], 8192u + 1024 + 128 + 16);  // rows 64 to 71
}

TEST(MatrixDescriptorTest, MnMajorWithoutSwizzleByHand) {
  const auto at = chunks(encode(256, 128, 512, 0), true, 16);
  EXPECT_EQ(at[16 * 0 + 3], 256u + 3 * 16);
  EXPECT_EQ(at[16 * 0 + 8], 256u + 128);  // leading: 8 columns
  EXPECT_EQ(at[16 * 1 + 0], 256u + 512);  // stride: 8 rows
}

TEST(MatrixDescriptorTest, RowsCanBeginAnywhere) {
  const uint64_t bits = encode(2048, 4096, 1024, 1);
  for (const bool mn_major : {false, true}) {
    const auto all = chunks(bits, mn_major, 64);
    for (uint32_t warp = 0; warp < 4; ++warp) {
      const auto part = chunks(bits, mn_major, 16, 16 * warp);
      EXPECT_EQ(part, std::vector<uint32_t>(all.begin() + 32 * warp, all.begin() + 32 * warp + 32));
    }
  }
}

// A pattern that begins 3 rows of 128 bytes after a boundary, with base offset 3, has the chunks of
// an aligned one, moved.
TEST(MatrixDescriptorTest, BaseOffsetMovesThePattern) {
  const auto aligned = chunks(encode(1024, 16, 1024, 1), false, 64);
  const auto moved = chunks(encode(1024 + 3 * 128, 16, 1024, 1, 3), false, 64);
  for (size_t i = 0; i < aligned.size(); ++i) EXPECT_EQ(moved[i], aligned[i] + 3 * 128) << i;
}

}  // namespace
}  // namespace lssar::vdev
