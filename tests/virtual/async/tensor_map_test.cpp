// Tensor maps: the driver's rules, and the virtual device's own encoding.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "device/tensor_map.h"
#include "device/tensor_map_codec.h"

namespace lssar::vdev {
namespace {

// A 3-dimensional tensor of bfloat16 with every field set to something of its own.
TensorMapRequest good_request() {
  TensorMapRequest r;
  r.type = TensorDataType::kBfloat16;
  r.rank = 3;
  r.global_address = 0x7f0012345670;
  r.global_dims[0] = 72;
  r.global_dims[1] = uint64_t{1} << 32;
  r.global_dims[2] = 5;
  r.global_strides[0] = 160;
  r.global_strides[1] = (uint64_t{1} << 40) - 16;
  r.box_dims[0] = 64;
  r.box_dims[1] = 256;
  r.box_dims[2] = 3;
  r.element_strides[1] = 8;
  r.element_strides[2] = 2;
  r.swizzle = TensorSwizzle::k128Bytes;
  r.l2_promotion = TensorL2Promotion::k256Bytes;
  r.fill = TensorFill::kNan;
  return r;
}

void expect_equal(const TensorMapRequest& a, const TensorMapRequest& b) {
  EXPECT_EQ(describe_tensor_map(a), describe_tensor_map(b));
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.interleave, b.interleave);
  EXPECT_EQ(a.swizzle, b.swizzle);
  EXPECT_EQ(a.l2_promotion, b.l2_promotion);
  EXPECT_EQ(a.fill, b.fill);
}

struct BadRequest {
  const char* name;
  std::function<void(TensorMapRequest&)> spoil;
  StatusCode code;
  const char* message;
};

class TensorMapRuleTest : public testing::TestWithParam<BadRequest> {};

TEST_P(TensorMapRuleTest, IsRefusedByFieldValueAndWhatIsAllowed) {
  TensorMapRequest r = good_request();
  GetParam().spoil(r);
  const Status status = validate_tensor_map(r);
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_EQ(status.message(), GetParam().message);
}

constexpr StatusCode kBad = StatusCode::kInvalidArgument;
const BadRequest kBadRequests[] = {
    {"Type", [](auto& r) { r.type = static_cast<TensorDataType>(13); }, kBad,
     "tensor map: type = 13: allowed are 0 to 12"},
    {"Interleave", [](auto& r) { r.interleave = static_cast<TensorInterleave>(3); }, kBad,
     "tensor map: interleave = 3: allowed are 0 to 2"},
    {"Interleave16", [](auto& r) { r.interleave = TensorInterleave::k16Bytes; },
     StatusCode::kUnsupported, "tensor map: interleave = 16 bytes: allowed is none"},
    {"Interleave32", [](auto& r) { r.interleave = TensorInterleave::k32Bytes; },
     StatusCode::kUnsupported, "tensor map: interleave = 32 bytes: allowed is none"},
    {"Swizzle", [](auto& r) { r.swizzle = static_cast<TensorSwizzle>(4); }, kBad,
     "tensor map: swizzle = 4: allowed are 0 to 3"},
    {"L2Promotion", [](auto& r) { r.l2_promotion = static_cast<TensorL2Promotion>(4); }, kBad,
     "tensor map: l2_promotion = 4: allowed are 0 to 3"},
    {"Fill", [](auto& r) { r.fill = static_cast<TensorFill>(2); }, kBad,
     "tensor map: fill = 2: allowed are 0 to 1"},
    {"FillOfIntegers", [](auto& r) { r.type = TensorDataType::kUint16; }, kBad,
     "tensor map: fill = NaN: type uint16 has no NaN; allowed are zeros"},
    {"RankZero", [](auto& r) { r.rank = 0; }, kBad, "tensor map: rank = 0: allowed are 1 to 5"},
    {"RankSix", [](auto& r) { r.rank = 6; }, kBad, "tensor map: rank = 6: allowed are 1 to 5"},
    {"Address", [](auto& r) { r.global_address = 0x1008; }, kBad,
     "tensor map: global_address = 0x1008: allowed are multiples of 16"},
    {"DimZero", [](auto& r) { r.global_dims[2] = 0; }, kBad,
     "tensor map: global_dims[2] = 0: allowed are 1 to 2^32"},
    {"DimTooLarge", [](auto& r) { r.global_dims[0] = (uint64_t{1} << 32) + 1; }, kBad,
     "tensor map: global_dims[0] = 4294967297: allowed are 1 to 2^32"},
    {"StrideMultiple", [](auto& r) { r.global_strides[0] = 168; }, kBad,
     "tensor map: global_strides[0] = 168: allowed are multiples of 16 bytes below 2^40"},
    {"StrideTooLarge", [](auto& r) { r.global_strides[1] = uint64_t{1} << 40; }, kBad,
     "tensor map: global_strides[1] = 1099511627776: allowed are multiples of 16 bytes below "
     "2^40"},
    {"BoxZero", [](auto& r) { r.box_dims[1] = 0; }, kBad,
     "tensor map: box_dims[1] = 0: allowed are 1 to 256"},
    {"BoxTooLarge", [](auto& r) { r.box_dims[2] = 257; }, kBad,
     "tensor map: box_dims[2] = 257: allowed are 1 to 256"},
    {"ElementStrideZero", [](auto& r) { r.element_strides[0] = 0; }, kBad,
     "tensor map: element_strides[0] = 0: allowed are 1 to 8"},
    {"ElementStrideTooLarge", [](auto& r) { r.element_strides[2] = 9; }, kBad,
     "tensor map: element_strides[2] = 9: allowed are 1 to 8"},
    {"BoxRowMultiple", [](auto& r) { r.box_dims[0] = 60; }, kBad,
     "tensor map: box_dims[0] = 60: 120 bytes of bfloat16; allowed are multiples of 16 bytes"},
    {"BoxRowOver128", [](auto& r) { r.box_dims[0] = 72; }, kBad,
     "tensor map: box_dims[0] = 72: 144 bytes of bfloat16; a swizzle of 128 bytes allows at most "
     "128"},
    {"BoxRowOver64", [](auto& r) { r.swizzle = TensorSwizzle::k64Bytes; }, kBad,
     "tensor map: box_dims[0] = 64: 128 bytes of bfloat16; a swizzle of 64 bytes allows at most "
     "64"},
    {"BoxRowOver32", [](auto& r) { r.swizzle = TensorSwizzle::k32Bytes; }, kBad,
     "tensor map: box_dims[0] = 64: 128 bytes of bfloat16; a swizzle of 32 bytes allows at most "
     "32"},
};
INSTANTIATE_TEST_SUITE_P(Fields, TensorMapRuleTest, testing::ValuesIn(kBadRequests),
                         [](const auto& tested) { return tested.param.name; });

TEST(TensorMapTest, EveryFieldAtItsLimitIsAllowed) {
  EXPECT_TRUE(validate_tensor_map(good_request()).ok());
  TensorMapRequest r = good_request();
  r.swizzle = TensorSwizzle::kNone;
  r.box_dims[0] = 256;
  EXPECT_TRUE(validate_tensor_map(r).ok());
  r.global_strides[0] = 0;  // rows that repeat
  r.global_strides[1] = 16;
  EXPECT_TRUE(validate_tensor_map(r).ok());
}

TEST(TensorMapTest, FieldsBeyondTheRankAreNotRead) {
  TensorMapRequest r = good_request();
  r.rank = 1;
  r.global_strides[0] = 7;
  r.global_dims[1] = 0;
  r.box_dims[1] = 1000;
  r.element_strides[1] = 0;
  EXPECT_TRUE(validate_tensor_map(r).ok()) << validate_tensor_map(r).to_string();
}

TEST(TensorMapTest, ElementsHaveTheSizesOfTheDriversTypes) {
  const uint32_t bytes[kNumTensorDataTypes] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  for (uint32_t i = 0; i < kNumTensorDataTypes; ++i) {
    const auto type = static_cast<TensorDataType>(i);
    EXPECT_EQ(tensor_element_bytes(type), bytes[i]) << tensor_data_type_name(type);
    EXPECT_EQ(is_floating_point(type), i >= 6) << tensor_data_type_name(type);
  }
}

TEST(TensorMapTest, DescribesARequest) {
  EXPECT_EQ(describe_tensor_map(good_request()),
            "tensor map of bfloat16 at 0x7f0012345670, dims (72, 4294967296, 5), strides (160, "
            "1099511627760), box (64, 256, 3), element strides (1, 8, 2), swizzle 128 bytes, fill "
            "NaN");
  TensorMapRequest broken;
  broken.rank = 9;
  broken.type = static_cast<TensorDataType>(99);
  EXPECT_NE(describe_tensor_map(broken).find("tensor map of ? at 0x0"), std::string::npos);
}

TEST(TensorMapCodecTest, GivesBackEveryField) {
  for (uint32_t rank = 1; rank <= kMaxTensorRank; ++rank) {
    for (uint32_t type = 0; type < kNumTensorDataTypes; ++type) {
      for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
        TensorMapRequest r;
        r.type = static_cast<TensorDataType>(type);
        r.rank = rank;
        r.global_address = 0xfedcba9876543210;
        for (uint32_t i = 0; i < rank; ++i) {
          r.global_dims[i] = i == 2 ? uint64_t{1} << 32 : i + 1;
          r.box_dims[i] = i == 0 ? 32 / tensor_element_bytes(r.type) : 256 - i;
          r.element_strides[i] = 8 - i;
          if (i > 0) r.global_strides[i - 1] = uint64_t{16} << (7 * i);
        }
        r.swizzle = static_cast<TensorSwizzle>(swizzle);
        r.l2_promotion = static_cast<TensorL2Promotion>(swizzle);
        r.fill = is_floating_point(r.type) ? TensorFill::kNan : TensorFill::kZeros;
        ASSERT_TRUE(validate_tensor_map(r).ok()) << validate_tensor_map(r).to_string();
        TensorMapRequest back;
        ASSERT_TRUE(decode_tensor_map(encode_tensor_map(r).bytes, back));
        expect_equal(back, r);
      }
    }
  }
}

TEST(TensorMapCodecTest, AnyChangedByteIsNoMap) {
  const TensorMap map = encode_tensor_map(good_request());
  for (uint32_t i = 0; i < kTensorMapBytes; ++i) {
    for (const int bit : {0, 7}) {
      TensorMap changed = map;
      changed.bytes[i] = static_cast<uint8_t>(changed.bytes[i] ^ (1 << bit));
      TensorMapRequest r;
      EXPECT_FALSE(decode_tensor_map(changed.bytes, r)) << "byte " << i << ", bit " << bit;
    }
  }
}

TEST(TensorMapCodecTest, ZerosAndPoisonAreNoMaps) {
  for (const int byte : {0, 0xff}) {
    TensorMap map;
    std::memset(map.bytes, byte, sizeof(map.bytes));
    TensorMapRequest r;
    EXPECT_FALSE(decode_tensor_map(map.bytes, r)) << byte;
  }
}

TEST(TensorMapCodecTest, HalfOfAnotherMapIsNoMap) {
  TensorMapRequest other = good_request();
  other.global_address += 16;
  TensorMap map = encode_tensor_map(good_request());
  std::memcpy(map.bytes, encode_tensor_map(other).bytes, 64);
  TensorMapRequest r;
  EXPECT_FALSE(decode_tensor_map(map.bytes, r));
}

TEST(TensorMapCodecTest, ARightChecksumDoesNotMakeAMapOfBrokenFields) {
  TensorMapRequest broken = good_request();
  broken.box_dims[0] = 60;
  TensorMapRequest r;
  EXPECT_FALSE(decode_tensor_map(encode_tensor_map(broken).bytes, r));
}

TEST(TensorMapCodecTest, DecodesFromAnyAddress) {
  uint8_t bytes[kTensorMapBytes + 1];
  std::memcpy(bytes + 1, encode_tensor_map(good_request()).bytes, kTensorMapBytes);
  TensorMapRequest r;
  ASSERT_TRUE(decode_tensor_map(bytes + 1, r));
  expect_equal(r, good_request());
}

}  // namespace
}  // namespace lssar::vdev
