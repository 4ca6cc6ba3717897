// The element-wise operations of cp.reduce.async.bulk against scalar expressions in double or wide
// integers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "virtual/async/bulk_reduce.h"

namespace lssar::vdev {
namespace {

using Op = BulkReduceOp;

// The operation on one element.
template <typename T>
T reduced(BulkReduceOp op, NumberType type, T old, T b) {
  const BulkReduce reduce = bulk_reduce(op, type);
  EXPECT_NE(reduce, nullptr);
  if (reduce == nullptr) return T{};
  reduce(reinterpret_cast<uint8_t*>(&old), reinterpret_cast<const uint8_t*>(&b), sizeof(T));
  return old;
}

TEST(BulkReduceTest, ExistsForTheOperationsAndTypesOfPtx) {
  const auto types_of = [](BulkReduceOp op) {
    std::string have;
    const char* names[kNumNumberTypes] = {"u8",  "s8",  "u16", "s16",  "u32", "s32",
                                          "u64", "s64", "f16", "bf16", "f32", "f64"};
    for (int t = 0; t < kNumNumberTypes; ++t) {
      if (bulk_reduce(op, static_cast<NumberType>(t)) != nullptr)
        have += std::string(names[t]) + " ";
    }
    return have;
  };
  EXPECT_EQ(types_of(Op::kAdd), "u32 s32 u64 f16 bf16 f32 f64 ");
  EXPECT_EQ(types_of(Op::kMin), "u32 s32 u64 s64 f16 bf16 ");
  EXPECT_EQ(types_of(Op::kMax), "u32 s32 u64 s64 f16 bf16 ");
  EXPECT_EQ(types_of(Op::kInc), "u32 ");
  EXPECT_EQ(types_of(Op::kDec), "u32 ");
  for (const Op op : {Op::kAnd, Op::kOr, Op::kXor}) EXPECT_EQ(types_of(op), "u32 s32 u64 s64 ");
}

TEST(BulkReduceTest, IntegersWrapCompareAndCombine) {
  std::mt19937_64 random(3);
  for (int n = 0; n < 2000; ++n) {
    uint64_t a = random(), b = random();
    if (n % 5 == 0) b = a;
    if (n % 7 == 0) a = ~uint64_t{0};
    const auto a32 = static_cast<uint32_t>(a), b32 = static_cast<uint32_t>(b);
    const auto as = static_cast<int64_t>(a), bs = static_cast<int64_t>(b);
    const auto as32 = static_cast<int32_t>(a32), bs32 = static_cast<int32_t>(b32);
    EXPECT_EQ(reduced(Op::kAdd, NumberType::kU32, a32, b32), a32 + b32);
    EXPECT_EQ(reduced(Op::kAdd, NumberType::kS32, a32, b32), a32 + b32);
    EXPECT_EQ(reduced(Op::kAdd, NumberType::kU64, a, b), a + b);
    EXPECT_EQ(reduced(Op::kMin, NumberType::kU32, a32, b32), std::min(a32, b32));
    EXPECT_EQ(reduced(Op::kMax, NumberType::kU32, a32, b32), std::max(a32, b32));
    EXPECT_EQ(reduced(Op::kMin, NumberType::kS32, as32, bs32), std::min(as32, bs32));
    EXPECT_EQ(reduced(Op::kMax, NumberType::kS32, as32, bs32), std::max(as32, bs32));
    EXPECT_EQ(reduced(Op::kMin, NumberType::kU64, a, b), std::min(a, b));
    EXPECT_EQ(reduced(Op::kMax, NumberType::kU64, a, b), std::max(a, b));
    EXPECT_EQ(reduced(Op::kMin, NumberType::kS64, as, bs), std::min(as, bs));
    EXPECT_EQ(reduced(Op::kMax, NumberType::kS64, as, bs), std::max(as, bs));
    EXPECT_EQ(reduced(Op::kAnd, NumberType::kU32, a32, b32), a32 & b32);
    EXPECT_EQ(reduced(Op::kOr, NumberType::kU64, a, b), a | b);
    EXPECT_EQ(reduced(Op::kXor, NumberType::kS64, a, b), a ^ b);
  }
}

TEST(BulkReduceTest, IncrementsAndDecrementsWrapAtTheSource) {
  const auto inc = [](uint32_t old, uint32_t b) {
    return reduced(Op::kInc, NumberType::kU32, old, b);
  };
  const auto dec = [](uint32_t old, uint32_t b) {
    return reduced(Op::kDec, NumberType::kU32, old, b);
  };
  EXPECT_EQ(inc(3, 5), 4u);
  EXPECT_EQ(inc(5, 5), 0u);
  EXPECT_EQ(inc(6, 5), 0u);
  EXPECT_EQ(dec(3, 5), 2u);
  EXPECT_EQ(dec(0, 5), 5u);
  EXPECT_EQ(dec(6, 5), 5u);
  EXPECT_EQ(dec(5, 5), 4u);
}

float add_f32(float a, float b) { return reduced(Op::kAdd, NumberType::kF32, a, b); }

TEST(BulkReduceTest, FloatSumsAreRoundedOnceAndFlushSubnormals) {
  EXPECT_EQ(add_f32(1.0f, 0x1p-24f), 1.0f);
  EXPECT_EQ(add_f32(1.0f, 0x1.8p-24f), 1.0f + 0x1p-23f);
  EXPECT_EQ(std::bit_cast<uint32_t>(add_f32(0x1p-130f, -0x1p-140f)), 0u);
  EXPECT_EQ(add_f32(0x1p-126f, 0x1p-130f), 0x1p-126f);
  EXPECT_EQ(std::bit_cast<uint32_t>(add_f32(-0x1.8p-126f, 0x1p-126f)), 0x80000000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(add_f32(INFINITY, -INFINITY)), 0x7fffffffu);
  EXPECT_EQ(reduced(Op::kAdd, NumberType::kF64, 1.0, 0x1p-1070), 1.0);
  EXPECT_EQ(reduced(Op::kAdd, NumberType::kF64, 0x1p-1070, 0x1p-1070), 0x1p-1069);
}

// A half's value: 5 or 8 bits of exponent.
double half_value(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double value;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return bits & 0x8000 ? -value : value;
}

// The half nearest to a sum of two halves, which is exact in double; ties to even. Searches.
uint16_t nearest_half(double value, int exponent_bits) {
  if (std::isnan(value)) return 0x7fff;
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  uint16_t low = 0, high = infinity;  // low <= magnitude < high
  if (std::isinf(magnitude)) return sign | infinity;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (half_value(middle, exponent_bits) <= magnitude ? low : high) = middle;
  }
  const double below = half_value(low, exponent_bits);
  // Infinity stands for the number that would follow the largest.
  const double above = high == infinity
                           ? 2 * below - half_value(static_cast<uint16_t>(low - 1), exponent_bits)
                           : half_value(high, exponent_bits);
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1) != 0);
  return sign | (up ? high : low);
}

void expect_half_operations(NumberType type, int exponent_bits, uint16_t a, uint16_t b) {
  const double x = half_value(a, exponent_bits), y = half_value(b, exponent_bits);
  EXPECT_EQ(reduced(Op::kAdd, type, a, b), nearest_half(x + y, exponent_bits)) << x << " + " << y;
  for (const bool smaller : {true, false}) {
    uint16_t expected;
    if (std::isnan(x) || std::isnan(y)) {
      expected = !std::isnan(x) ? a : !std::isnan(y) ? b : 0x7fff;
    } else if (x == y) {
      expected = smaller ? static_cast<uint16_t>(a | b) : static_cast<uint16_t>(a & b);
    } else {
      expected = (x < y) == smaller ? a : b;
    }
    EXPECT_EQ(reduced(smaller ? Op::kMin : Op::kMax, type, a, b), expected) << x << ", " << y;
  }
}

TEST(BulkReduceTest, HalvesRoundOnceKeepSubnormalsAndPreferNumbers) {
  std::mt19937 random(11);
  const std::vector<uint16_t> special = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x3c00,
                                         0x3f80, 0x7bff, 0x7c00, 0xfc00, 0x7f7f, 0x7f80, 0xff80,
                                         0x7fff, 0x7e00, 0xffff, 0x007f, 0x0080};
  for (const NumberType type : {NumberType::kF16, NumberType::kBf16}) {
    const int exponent_bits = type == NumberType::kF16 ? 5 : 8;
    for (const uint16_t a : special) {
      for (const uint16_t b : special) expect_half_operations(type, exponent_bits, a, b);
    }
    for (int n = 0; n < 20000; ++n) {
      const auto a = static_cast<uint16_t>(random());
      // Near in magnitude, so that digits meet.
      const auto b = static_cast<uint16_t>(n % 2 == 0 ? random() : a + random() % 4096);
      expect_half_operations(type, exponent_bits, a, b);
    }
  }
}

TEST(BulkReduceTest, ReducesEveryElementOfAPiece) {
  alignas(16) uint16_t halves[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const uint16_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  // At an odd half, and not all.
  bulk_reduce(Op::kAdd, NumberType::kF16)(reinterpret_cast<uint8_t*>(halves + 1),
                                          reinterpret_cast<const uint8_t*>(ones), 14);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(halves[i], i >= 1 && i <= 7 ? i + 1 : i);
}

TEST(BulkReduceTest, IsAtomicBetweenThreads) {
  alignas(16) uint32_t words[4] = {};
  alignas(16) uint16_t halves[8] = {};  // subnormal f16 counts in units of its last place
  const uint32_t one[4] = {1, 1, 1, 1};
  const uint16_t last_place[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int n = 0; n < 250; ++n) {
        bulk_reduce(Op::kAdd, NumberType::kU32)(reinterpret_cast<uint8_t*>(words),
                                                reinterpret_cast<const uint8_t*>(one), 16);
        bulk_reduce(Op::kAdd, NumberType::kF16)(reinterpret_cast<uint8_t*>(halves),
                                                reinterpret_cast<const uint8_t*>(last_place), 16);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint32_t word : words) EXPECT_EQ(word, 1000u);
  for (const uint16_t half : halves) EXPECT_EQ(half, 1000u);
}

TEST(BulkReduceTest, TensorMapsHaveATypeUnlessTheirElementsAreTooSmall) {
  NumberType number{};
  for (uint32_t t = 0; t < kNumTensorDataTypes; ++t) {
    const auto type = static_cast<TensorDataType>(t);
    const bool small = type == TensorDataType::kUint8 || type == TensorDataType::kUint16;
    EXPECT_EQ(bulk_reduce_type(type, number), !small) << tensor_data_type_name(type);
  }
  ASSERT_TRUE(bulk_reduce_type(TensorDataType::kBfloat16, number));
  EXPECT_EQ(number, NumberType::kBf16);
}

}  // namespace
}  // namespace lssar::vdev
