// The sum of both models: loops of the timing model, all else of the cost model.
#include <gtest/gtest.h>

#include "autotune/model/cost_model.h"
#include "tests/autotune/model/cost_case.h"

namespace lssar {
namespace {

constexpr double kClocksPerMs = 132 * 1.216e6;  // of an H100's SMs, by the timing model

TEST(SumOfBoth, HasTheLoopsOfOneAndTheRestOfTheOther) {
  const CostCase c = make_cost_case(Pass::kForward, 128, 8192, "sm_90a", false);
  Schedule schedule = c.standard();
  schedule.forward.block_rows = schedule.forward.block_cols = schedule.hopper.score_cols = 128;
  schedule.block_dv = 64;  // o has two parts: pass 2 runs twice
  CostModel model(c.problem, c.sizes, c.target, c.gpu);
  const auto sum = model.sum_of_both(schedule, {0.1, 0.2});
  ASSERT_TRUE(sum.has_value());
  const double scores = double(c.sizes.batch * c.sizes.heads) * 8192 * 8192;
  EXPECT_NEAR(sum->loops_ms, (0.1 + 2 * 0.2) * scores / kClocksPerMs, 1e-6 * sum->loops_ms);

  const CostEstimate cost = model.estimate(schedule);
  const double rest = sum->ms - sum->loops_ms * cost.wave_factor;
  EXPECT_GE(rest, cost.stall_ms + cost.launch_ms - 1e-9);
  EXPECT_LT(rest, cost.stall_ms + cost.launch_ms + 0.05 * cost.ms);  // and the norms of k
  const auto none = model.sum_of_both(schedule, {0, 0});
  EXPECT_NEAR(none->ms, rest, 1e-9);
}

TEST(SumOfBoth, CountsWholeTilesAtTheDiagonal) {
  const CostCase c = make_cost_case(Pass::kForward, 128, 1024);
  Schedule schedule = c.standard();
  schedule.forward.block_rows = schedule.forward.block_cols = schedule.hopper.score_cols = 128;
  const auto sum = CostModel(c.problem, c.sizes, c.target, c.gpu).sum_of_both(schedule, {0.1, 0.1});
  ASSERT_TRUE(sum.has_value());
  const double tiles = double(c.sizes.batch * c.sizes.heads) * (8 * 9 / 2);
  EXPECT_NEAR(sum->loops_ms, 0.2 * tiles * 128 * 128 / kClocksPerMs, 1e-6 * sum->loops_ms);
}

TEST(SumOfBoth, NeedsAForwardWhosePassesAreTheLoops) {
  CostCase c = make_cost_case(Pass::kForward, 64, 1024);
  Schedule schedule = c.standard();
  EXPECT_TRUE(has_sum_of_both(c.problem, schedule));
  CostModel model(c.problem, c.sizes, c.target, c.gpu);
  EXPECT_FALSE(model.sum_of_both(schedule, {0.1}).has_value());
  EXPECT_FALSE(model.sum_of_both(schedule, {0.1, 0.1, 0.1}).has_value());
  EXPECT_FALSE(model.sum_of_both(schedule, {}).has_value());
  schedule.hopper.stagger = 4;
  EXPECT_FALSE(has_sum_of_both(c.problem, schedule));
  schedule.variant = Variant::kPortable;
  EXPECT_FALSE(has_sum_of_both(c.problem, schedule));
  c.problem.pass = Pass::kBackward;
  EXPECT_FALSE(has_sum_of_both(c.problem, c.standard()));
}

}  // namespace
}  // namespace lssar
