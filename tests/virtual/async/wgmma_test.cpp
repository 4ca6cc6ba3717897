// Results of wgmma for all places of operands, types and moments of effect.
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/virtual/async/wgmma_fixture.h"

namespace lssar::test::wgmma {
namespace {

class WgmmaProduct : public testing::TestWithParam<Product> {};

TEST_P(WgmmaProduct, IsRight) {
  const Product& p = GetParam();
  const Operands operands(p, 3);
  for (const SimdLevel level : levels()) {
    for (const bool strict : {false, true}) {
      const Outcome have =
          run_text(options_for(level, strict, AsyncTiming::kLatest, 0), operands, product_text(p));
      ASSERT_TRUE(have.status.ok()) << have.status.to_string();
      ASSERT_EQ(have.out, operands.after()) << simd_level_name(level) << " strict " << strict;
    }
  }
}

const Product kProducts[] = {
    {},
    {.accumulate = true},
    {.n = 8},
    {.n = 256, .steps = 2},
    {.a = Layout::kRegisters},
    {.a = Layout::kKMajorPlain, .b = Layout::kKMajorPlain},
    {.a = Layout::kMnMajor, .steps = 2},
    {.b = Layout::kMnMajor, .steps = 2},
    {.n = 128, .a = Layout::kRegisters, .b = Layout::kMnMajor, .accumulate = true},
    {.type = Element::kF16},
    {.type = Element::kF16, .n = 96, .accumulate = true, .half_sums = true},
    {.type = Element::kTf32},
    {.type = Element::kTf32, .a = Layout::kRegisters},
    {.type = Element::kE4m3, .n = 128},
    {.type = Element::kE4m3, .a = Layout::kRegisters, .accumulate = true},
    {.type = Element::kE4m3, .n = 32, .half_sums = true},
    {.type = Element::kS8},
    {.type = Element::kS8, .n = 256, .steps = 2, .accumulate = true},
    {.type = Element::kU8, .n = 48, .a = Layout::kRegisters},
    {.type = Element::kU8, .n = 16, .a = Layout::kKMajorPlain, .b = Layout::kKMajorPlain},
    {.type = Element::kS8, .n = 8, .b_type = Element::kU8},
    {.type = Element::kU8, .n = 112, .accumulate = true, .b_type = Element::kS8},
    {.type = Element::kS8, .accumulate = true, .saturate = true},
    {.type = Element::kU8, .n = 24, .a = Layout::kRegisters, .accumulate = true, .saturate = true},
};

std::string product_name(const testing::TestParamInfo<Product>& info) {
  const Product& p = info.param;
  const char* const layouts[] = {"Registers", "KMajor", "Plain", "MnMajor"};
  return fmt::format("{}_{}_n{}_A{}_B{}{}{}{}", name_of(p.type), name_of(p.b_type), p.n,
                     layouts[static_cast<int>(p.a)], layouts[static_cast<int>(p.b)],
                     p.accumulate ? "_Accumulate" : "", p.half_sums ? "_HalfSums" : "",
                     p.saturate ? "_Saturate" : "");
}
INSTANTIATE_TEST_SUITE_P(All, WgmmaProduct, testing::ValuesIn(kProducts), product_name);

TEST(WgmmaTest, EveryTimingAndOrderOfWarps) {
  for (const Product& p : {Product{}, Product{.a = Layout::kRegisters, .accumulate = true}}) {
    check_text(p, product_text(p));
  }
}

// The second group adds to the first one's sums, which are in flight.
TEST(WgmmaTest, GroupsThatAddToTheSameSums) {
  Product p = {.steps = 4};
  std::string text = prologue(p);
  text += kFence;
  for (uint32_t i = 0; i < p.steps; ++i) {
    text += wgmma_text(p, i) + kCommit + "wgmma.wait_group.sync.aligned 1;\n";
  }
  check_text(p, text + kWait + epilogue(p));
}

TEST(WgmmaTest, TwoWarpGroupsAreApart) {
  const Product p;
  const Operands operands(p, 5);
  // The second one computes the same, and does not store it.
  std::string text = product_text(p);
  text = replaced(text, "mov.u32 %t, %tid.x;",
                  "mov.u32 %t, %tid.x; mov.u32 %x, %tid.x; "
                  "and.b32 %t, %t, 127;");
  text = replaced(text, "FILL:", "setp.ge.u32 %more, %x, 128; @%more bra FILLED;\nFILL:");
  text = replaced(text, "@%more bra FILL;\n", "@%more bra FILL;\nFILLED:\n");
  text = replaced(text, "ld.param.u64 %out",
                  "setp.ge.u32 %more, %x, 128; @%more ret;\nld.param.u64 %out");
  for (const AsyncTiming timing : kTimings) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      const Outcome have =
          run_text(options_for(levels().back(), true, timing, seed), operands, text, 256);
      ASSERT_TRUE(have.status.ok()) << have.status.to_string();
      ASSERT_EQ(have.out, operands.after());
    }
  }
}

// Without the strict mode a missing wait shows in the numbers, whatever the timing.
TEST(WgmmaTest, SumsAreNaNBeforeTheWait) {
  const Product p;
  const Operands operands(p, 5);
  for (const AsyncTiming timing : kTimings) {
    const Outcome have = run_text(options_for(levels().back(), false, timing, 1), operands,
                                  replaced(product_text(p), kWait, ""));
    ASSERT_TRUE(have.status.ok()) << have.status.to_string();
    for (const uint32_t bits : have.out) ASSERT_TRUE(std::isnan(std::bit_cast<float>(bits)));
  }
}

}  // namespace
}  // namespace lssar::test::wgmma
