// Which forms of softplus the cost model expects rows to take.
#include <gtest/gtest.h>

#include "autotune/kernel_work.h"

namespace lssar {
namespace {

struct Rows {
  Problem problem;
  int64_t length;
  Evaluator cheapest = Evaluator::kLinear;

  EvaluatorMix mix() const {
    Schedule schedule = default_schedule(problem, *target_from_name("sm_90a"));
    schedule.hopper.evaluator = cheapest;
    return evaluator_mix(problem, {4, 16, 16, length, length}, schedule);
  }
};

Rows make_rows(Pass pass, int dim, int64_t length) {
  Rows rows{{}, length};
  rows.problem.pass = pass;
  rows.problem.head_dim = rows.problem.head_dim_v = dim;
  return rows;
}

TEST(EvaluatorMix, LongRowsTakeTheLinearSoftplus) {
  Rows rows = make_rows(Pass::kForward, 64, 16384);
  const EvaluatorMix mix = rows.mix();
  EXPECT_GT(mix.linear, 0.9);
  EXPECT_NEAR(mix.full + mix.brief + mix.linear, 1, 1e-9);
  rows.cheapest = Evaluator::kShort;
  EXPECT_EQ(rows.mix().linear, 0);
  EXPECT_GT(rows.mix().brief, 0.9);
  rows.cheapest = Evaluator::kFull;
  EXPECT_EQ(rows.mix().full, 1);
}

TEST(EvaluatorMix, SmallPowersCountSmallScores) {
  Rows rows = make_rows(Pass::kForward, 64, 16384);
  rows.problem.p = 2;
  EXPECT_LT(rows.mix().linear, 0.1);
}

// In the backward what counts is by how much weights change, beside rounding.
TEST(EvaluatorMix, BackwardsTakeTheLinearSoftplusSooner) {
  Rows rows = make_rows(Pass::kBackward, 128, 2048);
  EXPECT_GT(rows.mix().linear, 0.5);
  rows.problem.dtype = DType::kFp16;
  EXPECT_LT(rows.mix().linear, 0.5);
  EXPECT_GT(rows.mix().brief, 0.4);
  rows.length = 16384;
  EXPECT_GT(rows.mix().linear, 0.5);
}

TEST(EvaluatorMix, GradientsOfTheFirstPowerTakeTheFullSoftplus) {
  Rows rows = make_rows(Pass::kBackward, 128, 16384);
  for (int p : {0, 1}) {
    rows.problem.p = p;
    EXPECT_EQ(rows.mix().full, 1) << p;
  }
}

}  // namespace
}  // namespace lssar
