// The operations of templates/cpu/pairs.h in software, beside what Intel's manual says of the
// instructions. (cpu_pairs_test compares with the instructions themselves, where the machine has
// them.)
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "templates/cpu/pairs.h"

namespace lssar {
namespace {

struct Lanes {
  static constexpr int kLanes = 16;
};
using Floats = lssar_device::Floats<Lanes>;
using Words = lssar_device::Words<Lanes>;

float flushed(double x) {
  const auto rounded = static_cast<float>(x);
  return std::fpclassify(rounded) == FP_SUBNORMAL ? std::copysign(0.0f, rounded) : rounded;
}
float number_of(uint32_t half) { return flushed(std::bit_cast<float>(half << 16)); }

// Intel's manual: the pairs' second numbers first; one rounding for each product's sum; denormal
// numbers are zeros. Products are exact, and a double holds their sums closely enough: the second
// rounding could matter only within 2^-53 of a tie.
float dot_by_the_manual(uint32_t a, uint32_t b, float sum) {
  for (const int shift : {16, 0}) {
    const double product = double{number_of(a >> shift & 0xffff)} * number_of(b >> shift & 0xffff);
    sum = flushed(product + flushed(sum));
  }
  return sum;
}

TEST(PairsOperations, ProductsAreThoseOfTheManual) {
  // 1, -1, 1.0078125 (the next number), 2^-64, 2^62, the least normal number, denormals, 2^24,
  // infinity, zeros, and two others. Products of finite numbers are below 2^128, because this
  // program may have no FMA.
  constexpr uint32_t kNumbers[] = {0x3f80, 0xbf80, 0x3f81, 0x1f80, 0x5e80, 0x0080, 0x0001,
                                   0x807f, 0x4b80, 0x7f80, 0x0000, 0x8000, 0x4049, 0xc2f7};
  constexpr float kSums[] = {0.0f, 1.0f, -1.0f, 0x1p-23f, 0x1p24f, -0x1p-126f, 0x1p-140f, 1e38f};
  uint32_t state = 1;
  const auto any = [&] {
    state = state * 1664525 + 1013904223;
    return kNumbers[(state >> 16) % std::size(kNumbers)];
  };
  for (int round = 0; round < 4000; ++round) {
    Words a, b;
    Floats sum;
    for (int i = 0; i < 16; ++i) {
      a[i] = any() | any() << 16;
      b[i] = any() | any() << 16;
      sum[i] = kSums[(round + i) % std::size(kSums)];
    }
    const Floats found = lssar_device::add_pair_products<Lanes>(a, b, sum);
    for (int i = 0; i < 16; ++i) {
      const float expected = dot_by_the_manual(a[i], b[i], sum[i]);
      const uint32_t bits = std::bit_cast<uint32_t>(float{found[i]});
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(float{found[i]})) << std::hex << a[i] << " " << b[i];
      } else {
        ASSERT_EQ(bits, std::bit_cast<uint32_t>(expected))
            << std::hex << a[i] << " " << b[i] << " + " << float{sum[i]} << ": " << float{found[i]}
            << ", not " << expected;
      }
    }
  }
}

TEST(PairsOperations, NumbersAreRoundedToNearestEven) {
  const std::pair<float, uint32_t> kCases[] = {
      {1.0f, 0x3f80},        {1.00390625f, 0x3f80},  // a tie, to even
      {1.01171875f, 0x3f82}, {1.0039064f, 0x3f81},  {-1.00390625f, 0xbf80}, {3.4e38f, 0x7f80},
      {0x1p-126f, 0x0080},   {0x1p-127f, 0x0000},   {-0x1p-140f, 0x8000},   {0.0f, 0x0000}};
  for (const auto& [x, bits] : kCases)
    EXPECT_EQ(lssar_device::rounded_numbers<Lanes>(Floats{} + x)[3], bits) << x;
  EXPECT_EQ(
      lssar_device::rounded_numbers<Lanes>(Floats{} + std::numeric_limits<float>::quiet_NaN())[0] &
          0x7f80,
      0x7f80);
}

// Columns of pairs, and of the sums that they add to, have one order.
TEST(PairsOperations, PairsOfTwoVectorsHaveTheOrderOfSplitGroups) {
  constexpr int kLanes = Lanes::kLanes;
  lssar_device::Bf16 first[2 * kLanes], second[2 * kLanes];
  Floats a, b;
  for (int i = 0; i < 2 * kLanes; ++i) {
    first[i].bits = static_cast<uint16_t>(1 + i);
    second[i].bits = static_cast<uint16_t>(101 + i);
    (i < kLanes ? a : b)[i % kLanes] = static_cast<float>(i);
  }
  const Floats a_before = a, b_before = b;
  lssar_device::split_groups<Lanes>(a, b, lssar_device::LaneNumbers<Lanes>{});
  const auto expect_pairs = [&](const Words& pairs, const Floats& columns, int count) {
    for (int i = 0; i < kLanes; ++i) {
      const auto column = static_cast<uint32_t>(columns[i]);
      const bool is_there = column < static_cast<uint32_t>(count);
      EXPECT_EQ(pairs[i], is_there ? (101 + column) << 16 | (1 + column) : 0) << i;
    }
  };
  Words even, odd;
  lssar_device::pair_two_vectors<Lanes, false>(first, second, even, odd);
  expect_pairs(even, a, 2 * kLanes);
  expect_pairs(odd, b, 2 * kLanes);
  lssar_device::pair_two_vectors<Lanes, true>(first, second, even, odd);
  expect_pairs(even, a, kLanes * 3 / 2);
  expect_pairs(odd, b, kLanes * 3 / 2);
  lssar_device::join_groups<Lanes>(a, b, lssar_device::LaneNumbers<Lanes>{});
  for (int i = 0; i < kLanes; ++i) {
    EXPECT_EQ(a[i], a_before[i]);
    EXPECT_EQ(b[i], b_before[i]);
  }
}

}  // namespace
}  // namespace lssar
