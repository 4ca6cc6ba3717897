// Compares boxes of TMA with a walk over single elements: which byte of shared memory holds which
// byte of the tensor, with every swizzle and over every edge.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/virtual/async/box_reference.h"
#include "virtual/async/tensor_box.h"

namespace lssar::vdev {
namespace {

using test::box_bytes;
using test::ByteMap;
using test::kOutsideTensor;
using test::swizzled;

constexpr uint64_t kBase = 0x100000000000;

ByteMap bytes_of(const std::vector<BoxRow>& rows, TensorSwizzle swizzle) {
  ByteMap bytes;
  for (const BoxRow& row : rows) {
    EXPECT_LE(row.begin, row.end);
    EXPECT_LE(row.end, row.bytes);
    for (uint32_t b = 0; b < row.bytes; ++b) {
      const bool inside = b >= row.begin && b < row.end;
      const uint32_t shared = swizzle_address(swizzle, row.shared + b);
      EXPECT_TRUE(bytes.emplace(shared, inside ? row.global + b : kOutsideTensor).second)
          << "twice: shared " << shared;
    }
  }
  return bytes;
}

void expect_box(const TensorMapRequest& r, const std::vector<int32_t>& at, uint32_t shared) {
  ASSERT_TRUE(validate_tensor_map(r).ok()) << validate_tensor_map(r).to_string();
  SCOPED_TRACE(describe_tensor_map(r));
  const TensorBox box(r, at.data(), shared);
  std::vector<BoxRow> rows;
  box.rows(rows);
  const ByteMap expected = box_bytes(r, at.data(), shared);
  EXPECT_EQ(box.bytes(), expected.size());
  EXPECT_EQ(rows.size(), box.num_rows());
  EXPECT_TRUE(bytes_of(rows, r.swizzle) == expected) << "first coordinate " << at[0];
}

TensorMapRequest matrix(TensorDataType type, uint64_t columns, uint64_t rows, uint32_t box_columns,
                        uint32_t box_rows, TensorSwizzle swizzle) {
  TensorMapRequest r;
  r.type = type;
  r.rank = 2;
  r.global_address = kBase;
  r.global_dims[0] = columns;
  r.global_dims[1] = rows;
  r.global_strides[0] = (columns * tensor_element_bytes(type) + 15) / 16 * 16 + 32;
  r.box_dims[0] = box_columns;
  r.box_dims[1] = box_rows;
  r.swizzle = swizzle;
  return r;
}

TEST(SwizzleTest, PermutesChunksByTheLineOfTheAbsoluteAddress) {
  for (uint32_t mode = 0; mode < 4; ++mode) {
    for (uint32_t address = 0; address < 4096; ++address) {
      const auto swizzle = static_cast<TensorSwizzle>(mode);
      ASSERT_EQ(swizzle_address(swizzle, address), swizzled(swizzle, address)) << address;
    }
  }
  // By hand: line 5 of the 128-byte pattern, chunk 3 -> 3 ^ 5 = 6.
  EXPECT_EQ(swizzle_address(TensorSwizzle::k128Bytes, 5 * 128 + 3 * 16 + 4), 5u * 128 + 6 * 16 + 4);
  EXPECT_EQ(swizzle_address(TensorSwizzle::k64Bytes, 3 * 128 + 1 * 16), 3u * 128 + 2 * 16);
  EXPECT_EQ(swizzle_address(TensorSwizzle::k32Bytes, 128 + 16), 128u);
  EXPECT_EQ(swizzle_address(TensorSwizzle::kNone, 0x3ff), 0x3ffu);
}

TEST(TensorBoxTest, EveryTypeAndSwizzleInsideTheTensor) {
  for (uint32_t type = 0; type < kNumTensorDataTypes; ++type) {
    for (uint32_t mode = 0; mode < 4; ++mode) {
      const auto t = static_cast<TensorDataType>(type);
      const uint32_t columns = (mode == 0 ? 128 : 16u << mode) / tensor_element_bytes(t);
      expect_box(matrix(t, 300, 40, columns, 16, static_cast<TensorSwizzle>(mode)), {8, 5}, 2048);
    }
  }
}

TEST(TensorBoxTest, BoxesOverEveryEdgeAndOutside) {
  const TensorMapRequest r =
      matrix(TensorDataType::kBfloat16, 100, 50, 64, 8, TensorSwizzle::k128Bytes);
  // 100 columns are 12.5 chunks: an edge within a chunk.
  for (const int32_t x : {-1000, -64, -63, -5, 0, 3, 36, 37, 60, 99, 100, 1000}) {
    for (const int32_t y : {-9, -8, -7, 0, 42, 43, 49, 50, 77}) expect_box(r, {x, y}, 1024);
  }
}

TEST(TensorBoxTest, CoordinatesAtTheEndsOfTheirRange) {
  const TensorMapRequest r =
      matrix(TensorDataType::kFloat32, 100, 50, 32, 4, TensorSwizzle::k128Bytes);
  constexpr int32_t kLow = INT32_MIN, kHigh = INT32_MAX;
  for (const int32_t x : {kLow, kHigh}) {
    for (const int32_t y : {kLow, 0, kHigh}) expect_box(r, {x, y}, 0);
  }
  TensorMapRequest large =
      matrix(TensorDataType::kUint8, uint64_t{1} << 32, 3, 32, 2, TensorSwizzle::kNone);
  large.global_strides[0] = uint64_t{1} << 33;
  expect_box(large, {kHigh, 1}, 0);
}

TEST(TensorBoxTest, ATensorNarrowerThanTheBoxLeavesBothEdgesInARow) {
  const TensorMapRequest r =
      matrix(TensorDataType::kFloat16, 3, 9, 64, 4, TensorSwizzle::k128Bytes);
  for (const int32_t x : {-40, -2, -1, 0, 1, 2}) expect_box(r, {x, 2}, 4096);
}

TEST(TensorBoxTest, SharedAddressesNeedNotBeginAPattern) {
  for (const uint32_t shared : {0u, 16u, 128u, 896u, 1040u}) {
    expect_box(matrix(TensorDataType::kFloat16, 100, 50, 32, 9, TensorSwizzle::k64Bytes), {4, 4},
               shared);
    expect_box(matrix(TensorDataType::kFloat16, 100, 50, 16, 9, TensorSwizzle::k128Bytes), {4, 4},
               shared);
  }
}

TEST(TensorBoxTest, ElementStridesSkipButNotInTheInnermostDimension) {
  for (uint32_t step = 1; step <= 8; ++step) {
    TensorMapRequest r = matrix(TensorDataType::kFloat32, 64, 64, 32, 17, TensorSwizzle::k128Bytes);
    r.element_strides[0] = step;
    r.element_strides[1] = step;
    expect_box(r, {1, -3}, 1024);
    expect_box(r, {1, 50}, 1024);
  }
}

TEST(TensorBoxTest, RandomTensorsOfEveryRank) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int n = 0; n < 600; ++n) {
    TensorMapRequest r;
    r.type = static_cast<TensorDataType>(pick(0, kNumTensorDataTypes - 1));
    r.rank = static_cast<uint32_t>(1 + n % 5);
    r.global_address = kBase + static_cast<uint64_t>(pick(0, 9)) * 16;
    r.swizzle = static_cast<TensorSwizzle>(pick(0, 3));
    const int64_t span = r.swizzle == TensorSwizzle::kNone ? 96 : swizzle_span_bytes(r.swizzle);
    std::vector<int32_t> at;
    for (uint32_t d = 0; d < r.rank; ++d) {
      r.global_dims[d] = static_cast<uint64_t>(pick(1, 20));
      if (d > 0) r.global_strides[d - 1] = static_cast<uint64_t>(pick(0, 200)) * 16;
      r.box_dims[d] = static_cast<uint32_t>(pick(1, 5));
      r.element_strides[d] = static_cast<uint32_t>(pick(0, 2) == 0 ? pick(1, 8) : 1);
      at.push_back(static_cast<int32_t>(pick(-6, 22)));
    }
    r.box_dims[0] = static_cast<uint32_t>(pick(1, span / 16) * 16) / tensor_element_bytes(r.type);
    expect_box(r, at, static_cast<uint32_t>(pick(0, 64)) * 16);
  }
}

TEST(BoxCopyTest, ScattersAndGathersBySwizzle) {
  std::vector<uint8_t> data(1024), memory(4096, 0xee), back(1024);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 256);
  for (uint32_t mode = 0; mode < 4; ++mode) {
    const auto swizzle = static_cast<TensorSwizzle>(mode);
    constexpr uint32_t kAt = 1024 + 384;
    scatter_swizzled(swizzle, data.data(), 1024, kAt, memory.data());
    for (uint32_t i = 0; i < 1024; ++i) {
      ASSERT_EQ(memory[swizzled(swizzle, kAt + i)], data[i]) << mode << " " << i;
    }
    EXPECT_EQ(memory[kAt - 1], 0xee);
    EXPECT_EQ(memory[kAt + 1024], 0xee);
    gather_swizzled(swizzle, memory.data(), kAt, 1024, back.data());
    EXPECT_EQ(back, data);
  }
}

TEST(BoxCopyTest, ReadsRowsAndFillsWhatIsOutside) {
  std::vector<uint8_t> memory(64);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint8_t>(i);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  uint8_t pattern[16];
  for (int i = 0; i < 16; ++i) pattern[i] = static_cast<uint8_t>(0xa0 + i);
  const std::vector<BoxRow> rows = {
      {address, 0, 32, 6, 30}, {address + 32, 32, 32, 0, 32}, {0, 64, 32, 0, 0}};
  std::vector<uint8_t> buffer(96);
  read_rows(rows, pattern, buffer.data());
  for (uint32_t i = 0; i < 96; ++i) {
    const bool inside = i < 32 ? i >= 6 && i < 30 : i < 64;
    EXPECT_EQ(buffer[i], inside ? i : 0xa0 + i % 16) << i;
  }
}

TEST(FillTest, IsZerosOrANanOfTheType) {
  uint8_t pattern[16];
  for (uint32_t type = 0; type < kNumTensorDataTypes; ++type) {
    const uint8_t zeros[16] = {};
    fill_pattern(static_cast<TensorDataType>(type), TensorFill::kZeros, pattern);
    EXPECT_EQ(std::memcmp(pattern, zeros, 16), 0) << type;
  }
  uint16_t halves[8];
  for (const TensorDataType type : {TensorDataType::kFloat16, TensorDataType::kBfloat16}) {
    fill_pattern(type, TensorFill::kNan, pattern);
    std::memcpy(halves, pattern, 16);
    for (const uint16_t half : halves) EXPECT_EQ(half, 0x7fff);
  }
  uint32_t words[4];
  fill_pattern(TensorDataType::kFloat32, TensorFill::kNan, pattern);
  std::memcpy(words, pattern, 16);
  for (const uint32_t word : words) EXPECT_EQ(word, 0x7fffffffu);
  uint64_t longs[2];
  fill_pattern(TensorDataType::kFloat64, TensorFill::kNan, pattern);
  std::memcpy(longs, pattern, 16);
  for (const uint64_t value : longs) EXPECT_EQ(value, 0x7fffffffffffffffu);
}

uint32_t converted(TensorDataType type, uint32_t bits) {
  uint8_t data[4];
  std::memcpy(data, &bits, 4);
  convert_on_load(type, data, 4);
  std::memcpy(&bits, data, 4);
  return bits;
}

TEST(ConvertOnLoadTest, FlushesSubnormalsToZeroOfTheirSign) {
  EXPECT_EQ(converted(TensorDataType::kFloat32Ftz, 0x807fffffu), 0x80000000u);
  EXPECT_EQ(converted(TensorDataType::kFloat32Ftz, 0x00800001u), 0x00800001u);
  EXPECT_EQ(converted(TensorDataType::kFloat32Ftz, 0x3f801234u), 0x3f801234u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32Ftz, 0x00400000u), 0u);
}

TEST(ConvertOnLoadTest, RoundsToTenBitsOfMantissa) {
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0x3f800fffu), 0x3f800000u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0x3f801000u), 0x3f802000u);  // a tie: away
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0xbf803000u), 0xbf804000u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0x7f7fffffu), 0x7f800000u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0xff800000u), 0xff800000u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0xff800001u), 0x7fffe000u);
  EXPECT_EQ(converted(TensorDataType::kTfloat32, 0x00400000u), 0x00400000u);
}

TEST(ConvertOnLoadTest, OnlyTheTypesThatSaySoConvert) {
  for (uint32_t type = 0; type < kNumTensorDataTypes; ++type) {
    EXPECT_EQ(converts_on_load(static_cast<TensorDataType>(type)), type >= 10);
  }
}

}  // namespace
}  // namespace lssar::vdev
