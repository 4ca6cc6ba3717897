#include "codegen/source/power_chain.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

// Lengths of shortest addition chains, n = 1 to 64 (OEIS A003313).
constexpr int kShortest[] = {0, 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 5, 5, 4, 5, 5, 6, 5, 6, 6,
                             6, 5, 6, 6, 6, 6, 7, 6, 7, 5, 6, 6, 7, 6, 7, 7, 7, 6, 7, 7, 7, 7,
                             7, 7, 8, 6, 7, 7, 7, 7, 8, 7, 8, 7, 8, 8, 8, 7, 8, 8, 8, 6};

TEST(PowerChain, IsAsShortAsCanBe) {
  for (int n = 1; n <= 64; ++n)
    EXPECT_EQ(power_chain(n).size(), static_cast<size_t>(kShortest[n - 1])) << "n " << n;
}

TEST(PowerChain, EveryStepUsesPowersMadeBeforeAndTheLastIsN) {
  for (int n = 1; n <= 64; ++n) {
    std::vector<bool> known(65, false);
    known[1] = true;
    for (const PowerStep& step : power_chain(n)) {
      ASSERT_TRUE(known[step.left] && known[step.right]) << "n " << n;
      ASSERT_EQ(step.exponent, step.left + step.right) << "n " << n;
      ASSERT_LE(step.exponent, 64);
      known[step.exponent] = true;
    }
    EXPECT_TRUE(known[n]) << "n " << n;
  }
}

}  // namespace
}  // namespace lssar
