#include "autotune/bucket.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

TEST(Bucket, LengthsAreRoundedByTheirLogarithm) {
  EXPECT_EQ(length_bucket(-1), 0);
  EXPECT_EQ(length_bucket(0), 0);
  EXPECT_EQ(length_bucket(1), 1);
  EXPECT_EQ(length_bucket(2), 2);
  EXPECT_EQ(length_bucket(3), 4);  // 3 > 2 sqrt(2)
  EXPECT_EQ(length_bucket(5), 4);
  EXPECT_EQ(length_bucket(6), 8);
  EXPECT_EQ(length_bucket(5792), 4096);  // below 4096 sqrt(2) = 5792.6
  EXPECT_EQ(length_bucket(5793), 8192);
}

}  // namespace
}  // namespace lssar
