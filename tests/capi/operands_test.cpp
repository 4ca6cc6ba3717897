// Extents, self-overlap and overlap of strided tensors.
#include "runtime/operands.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lssar {
namespace {

Operand make(DevicePtr data, std::array<int64_t, 3> sizes, std::array<int64_t, 3> strides,
             int64_t dim, int elem_bytes = 2) {
  Operand operand;
  operand.name = "t";
  operand.data = data;
  std::copy(sizes.begin(), sizes.end(), operand.sizes);
  std::copy(strides.begin(), strides.end(), operand.strides);
  operand.dim = dim;
  operand.elem_bytes = elem_bytes;
  return operand;
}

std::set<int64_t> bytes_of(const Operand& t) {
  std::set<int64_t> bytes;
  for (int64_t b = 0; b < t.sizes[0]; ++b)
    for (int64_t h = 0; h < t.sizes[1]; ++h)
      for (int64_t i = 0; i < t.sizes[2]; ++i) {
        const int64_t first = b * t.strides[0] + h * t.strides[1] + i * t.strides[2];
        for (int64_t byte = 0; byte < t.dim * t.elem_bytes; ++byte)
          bytes.insert(static_cast<int64_t>(t.data) + first * t.elem_bytes + byte);
      }
  return bytes;
}

TEST(Operands, ExtentReachesTheEndOfTheLastElement) {
  const auto extent = extent_bytes(make(1000, {2, 3, 4}, {120, 40, 10}, 8));
  ASSERT_TRUE(extent.ok());
  EXPECT_EQ(*extent, (120 + 2 * 40 + 3 * 10 + 8) * 2);
}

TEST(Operands, ExtentBeyondTheAddressSpaceIsAnError) {
  const auto extent = extent_bytes(make(1000, {2, 1, 1}, {int64_t{1} << 62, 0, 0}, 8));
  ASSERT_FALSE(extent.ok());
  EXPECT_EQ(extent.status().code(), StatusCode::kInvalidArgument);
}

TEST(Operands, ExtentThatWrapsAroundTheEndOfMemoryIsAnError) {
  const DevicePtr near_end = (uint64_t{1} << 63) - 16;
  EXPECT_FALSE(extent_bytes(make(near_end, {1, 1, 2}, {0, 0, 8}, 8)).ok());
}

TEST(Operands, StrideOfASizeOfOneIsNotLookedAt) {
  const Operand t = make(1000, {1, 1, 2}, {INT64_MAX, INT64_MIN, 8}, 8);
  EXPECT_TRUE(extent_bytes(t).ok());
  EXPECT_FALSE(overlaps_itself(t));
  EXPECT_TRUE(certainly_overlap(t, t));
}

TEST(Operands, ZeroStrideOverlapsItself) {
  EXPECT_TRUE(overlaps_itself(make(1000, {1, 2, 4}, {0, 0, 8}, 8)));
}

TEST(Operands, RowsCloserThanTheirLengthOverlapThemselves) {
  EXPECT_TRUE(overlaps_itself(make(1000, {1, 1, 4}, {0, 0, 7}, 8)));
  EXPECT_FALSE(overlaps_itself(make(1000, {1, 1, 4}, {0, 0, 8}, 8)));
}

TEST(Operands, LengthMajorLayoutDoesNotOverlapItself) {
  EXPECT_FALSE(overlaps_itself(make(1000, {2, 3, 5}, {120, 8, 24}, 8)));
}

TEST(Operands, PackedQueriesKeysAndValuesDoNotOverlap) {
  // [batch 2, length 128, 3, heads 16, dim 64]: the hulls overlap, the elements do not.
  const std::array<int64_t, 3> strides = {128 * 3 * 16 * 64, 64, 3 * 16 * 64};
  const Operand q = make(4096, {2, 16, 128}, strides, 64);
  const Operand k = make(4096 + 16 * 64 * 2, {2, 16, 128}, strides, 64);
  EXPECT_FALSE(certainly_overlap(q, k));
}

TEST(Operands, PackedTensorsOfDifferentDimsDoNotOverlap) {
  // [length 100, 4 heads x 32 and then 2 heads x 64]: different head strides.
  const Operand q = make(4096, {1, 4, 100}, {0, 32, 256}, 32);
  const Operand v = make(4096 + 128 * 2, {1, 2, 100}, {0, 64, 256}, 64);
  EXPECT_FALSE(certainly_overlap(q, v));
}

TEST(Operands, OneSharedByteIsAnOverlap) {
  const Operand a = make(4096, {1, 1, 4}, {0, 0, 8}, 8);
  EXPECT_TRUE(certainly_overlap(a, make(4096 + 63, {1, 1, 1}, {0, 0, 0}, 8)));
  EXPECT_FALSE(certainly_overlap(a, make(4096 + 64, {1, 1, 1}, {0, 0, 0}, 8)));
}

TEST(Operands, OverlapAgreesWithASetOfBytesOnRandomLayouts) {
  std::mt19937 random(7);
  const auto up_to = [&](int n) { return static_cast<int64_t>(random() % (n + 1)); };
  int overlaps = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto any = [&] {
      return make(4096 + 2 * up_to(400), {1 + up_to(2), 1 + up_to(2), 1 + up_to(4)},
                  {up_to(100), up_to(60), up_to(40)}, 1 + up_to(8));
    };
    const Operand a = any(), b = any();
    const std::set<int64_t> bytes_a = bytes_of(a), bytes_b = bytes_of(b);
    bool is_shared = false;
    for (const int64_t byte : bytes_a) is_shared = is_shared || bytes_b.count(byte) != 0;
    overlaps += is_shared;
    ASSERT_EQ(certainly_overlap(a, b), is_shared) << "round " << round;
    ASSERT_EQ(certainly_overlap(b, a), is_shared) << "round " << round;
  }
  EXPECT_GT(overlaps, 500);
  EXPECT_LT(overlaps, 2500);
}

}  // namespace
}  // namespace lssar
