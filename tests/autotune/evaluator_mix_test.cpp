// Which forms of softplus rows may take, and the cost model expects them to.
#include <algorithm>

#include <gtest/gtest.h>

#include "autotune/model/kernel_work.h"
#include "autotune/space/search_space.h"
#include "codegen/emit.h"

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
  rows.problem.causal = true;
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

// The gradient of U^1 jumps at U = 0: it takes the full softplus, whatever the schedule allows, and
// the tuner does not try others.
TEST(EvaluatorMix, GradientsOfTheFirstPowerTakeTheFullSoftplus) {
  const Target target = *target_from_name("sm_90a");
  Rows rows = make_rows(Pass::kBackward, 128, 16384);
  for (int p : {0, 1, 2}) {
    SCOPED_TRACE(p);
    const Problem& problem = rows.problem;
    rows.problem.p = p;
    if (p <= 1) {
      EXPECT_EQ(rows.mix().full, 1);
    }
    const SearchSpace space = search_space(problem, target, Determinism::kAny);
    ASSERT_FALSE(space.algorithms.empty());
    const Algorithm& first = space.algorithms[0];
    const auto is_evaluator = [](const Dimension& d) { return d.name == "hopper.evaluator"; };
    EXPECT_EQ(std::any_of(first.thread.begin(), first.thread.end(), is_evaluator), p > 1);
    Schedule full = first.schedule;
    full.hopper.evaluator = Evaluator::kFull;
    EXPECT_EQ(canonical_schedule(full, problem) == canonical_schedule(first.schedule, problem),
              p <= 1);
    const auto source = [&](const Schedule& schedule) {
      return source_without_header(emit_kernel(problem, schedule, target).value().source);
    };
    EXPECT_EQ(source(full) == source(first.schedule), p <= 1);
  }
}

}  // namespace
}  // namespace lssar
