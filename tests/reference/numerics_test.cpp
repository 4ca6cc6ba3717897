#include "reference/numerics.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "codegen/source/softplus_poly.h"
#include "reference/random_inputs.h"

namespace lssar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Fp16, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = decode_fp16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_EQ(encode_fp16(value) & 0x7FFF, 0x7E00) << bits;
    } else {
      EXPECT_EQ(encode_fp16(value), bits);
    }
  }
}

TEST(Bf16, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = decode_bf16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_EQ(encode_bf16(value) & 0x7FFF, 0x7FC0) << bits;
    } else {
      EXPECT_EQ(encode_bf16(value), bits);
    }
  }
}

// Between neighbours: below the middle down, above it up, at it to the even one.
TEST(Fp16, RoundsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const double low = decode_fp16(bits), high = decode_fp16(bits + 1);
    const double middle = (low + high) / 2;
    ASSERT_EQ(encode_fp16(middle), (bits & 1) == 0 ? bits : bits + 1);
    ASSERT_EQ(encode_fp16(std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(encode_fp16(std::nextafter(middle, kInf)), bits + 1);
    ASSERT_EQ(encode_fp16(-middle), 0x8000 | ((bits & 1) == 0 ? bits : bits + 1));
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7F7F; ++bits) {
    const double low = decode_bf16(bits), high = decode_bf16(bits + 1);
    const double middle = (low + high) / 2;
    ASSERT_EQ(encode_bf16(middle), (bits & 1) == 0 ? bits : bits + 1);
    ASSERT_EQ(encode_bf16(std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(encode_bf16(std::nextafter(middle, kInf)), bits + 1);
  }
}

TEST(Fp16, OverflowsToInfinityFromHalfwayPastTheLargest) {
  EXPECT_EQ(encode_fp16(65519.0), 0x7BFF);
  EXPECT_EQ(encode_fp16(65520.0), 0x7C00);
  EXPECT_EQ(encode_fp16(1e300), 0x7C00);
  EXPECT_EQ(encode_fp16(-1e300), 0xFC00);
  EXPECT_EQ(encode_fp16(kInf), 0x7C00);
}

TEST(Fp16, DenormalsAndBelow) {
  EXPECT_EQ(encode_fp16(0x1p-24), 1);
  EXPECT_EQ(encode_fp16(0x1p-25), 0);  // a tie: to even
  EXPECT_EQ(encode_fp16(0x1.8p-25), 1);
  EXPECT_EQ(encode_fp16(-0x1p-30), 0x8000);
  EXPECT_EQ(encode_fp16(0x1p-1074), 0);
}

TEST(Bf16, KnownValues) {
  EXPECT_EQ(encode_bf16(1.0), 0x3F80);
  EXPECT_EQ(encode_bf16(-2.0), 0xC000);
  EXPECT_EQ(encode_bf16(3.4e38), 0x7F80);  // above the largest by more than half a step
  EXPECT_EQ(encode_bf16(kInf), 0x7F80);
  EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(kNan))));
}

TEST(Rounding, OfADoubleHappensOnce) {
  // Through float32 this would become a tie and round down to 1.
  const double just_above_tie = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(round_to(DType::kFp16, just_above_tie), 1.0f + 0x1p-10f);
}

TEST(Pack, GoesBothWays) {
  const std::vector<float> values{0.0f, -1.5f, 0.1f, 1e-6f, 70000.0f};
  for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    const std::vector<std::byte> bytes = pack(dtype, values);
    EXPECT_EQ(bytes.size(), values.size() * dtype_bytes(dtype));
    std::vector<float> rounded = values;
    round_all(dtype, rounded);
    EXPECT_EQ(unpack(dtype, bytes), rounded);
  }
}

TEST(Pack, IsLittleEndian) {
  const std::vector<std::byte> bytes = pack(DType::kBf16, std::vector<float>{1.0f});
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 0x80);
  EXPECT_EQ(std::to_integer<int>(bytes[1]), 0x3F);
}

// u P(u) as a kernel computes it: Horner's rule with fused multiply-adds in float32.
float polynomial(std::span<const double> coefficients, float u) {
  float sum = static_cast<float>(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) {
    sum = std::fma(sum, u, static_cast<float>(coefficients[i]));
  }
  return sum * u;
}

class SoftplusPolynomial : public ::testing::TestWithParam<int> {};

TEST_P(SoftplusPolynomial, ErrorIsAsDocumented) {
  constexpr double kDocumented[] = {4.5e-4, 6.3e-5, 9.3e-6, 1.5e-6, 3.8e-7, 1.8e-7};
  const std::span<const double> c = softplus_coefficients(GetParam());
  ASSERT_EQ(c.size(), static_cast<size_t>(GetParam()) + 1);
  double worst = 0;
  const auto measure = [&](float u) {
    const double exact = std::log1p(static_cast<double>(u)) / std::log(2.0);
    worst = std::max(worst, std::abs(polynomial(c, u) / exact - 1));
  };
  for (int i = 1; i <= 200000; ++i) measure(static_cast<float>(i / 200000.0));
  for (int i = 0; i <= 12000; ++i) measure(static_cast<float>(std::exp2(-i / 100.0)));
  const double documented = kDocumented[GetParam() - kMinSoftplusDegree];
  EXPECT_LE(worst, documented);
  EXPECT_GE(worst, 0.8 * documented) << "the table claims less than there is";
}

TEST_P(SoftplusPolynomial, IsExactlyOneAtOne) {
  EXPECT_EQ(polynomial(softplus_coefficients(GetParam()), 1.0f), 1.0f);
}

TEST_P(SoftplusPolynomial, CoefficientsAreFloat32) {
  for (double c : softplus_coefficients(GetParam())) {
    EXPECT_EQ(c, static_cast<double>(static_cast<float>(c)));
  }
}

// m_i comes from the largest score: u <= 1 needs a softplus that never falls as scores rise.
TEST_P(SoftplusPolynomial, SoftplusRisesWithTheScore) {
  const std::span<const double> c = softplus_coefficients(GetParam());
  const auto softplus = [&](double x) {
    return std::max(x, 0.0) + polynomial(c, static_cast<float>(std::exp2(-std::abs(x))));
  };
  for (double x = -30; x < 30; x += 1.0 / 64) {
    ASSERT_GT(softplus(x + 1.0 / 64), softplus(x)) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Degree, SoftplusPolynomial, ::testing::Range(3, 9));

TEST(SoftplusCoefficients, OfOtherDegreesAreEmpty) {
  EXPECT_TRUE(softplus_coefficients(2).empty());
  EXPECT_TRUE(softplus_coefficients(9).empty());
}

}  // namespace
}  // namespace lssar
