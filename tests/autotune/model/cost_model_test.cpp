#include "autotune/model/cost_model.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/space/search_space.h"
#include "tests/autotune/model/cost_case.h"

namespace lssar {
namespace {

TEST(CostModel, CombinesTermsAsDocumented) {
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}), 5);
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}, 0), 7);
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 2, 0, 0}), 5);   // shared memory below the products it feeds
  EXPECT_DOUBLE_EQ(combine({1, 4, 0, 3, 0, 0}), 5);   // and above
  EXPECT_NEAR(combine({3, 4, 0, 0, 2, 1}), 5, 0.01);  // read ahead
  EXPECT_NEAR(combine({3, 4, 0, 0, 50, 1}), 50, 0.01);
  EXPECT_EQ(combine({}), 0);
  // Half the schedulers: twice the time of what each has of its own.
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}, 1, 0.5), 10);
  EXPECT_DOUBLE_EQ(combine({0, 0, 4, 3, 0, 0}, 1, 0.5), std::hypot(8, 3));
}

// Nothing is faster than the largest term at the boost clock, whatever the schedule.
TEST(CostModel, NoScheduleIsFasterThanTheLowerBound) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      for (const int64_t length : {1, 300, 4096}) {
        const CostCase c = make_cost_case(pass, 128, length, target);
        const SearchSpace space = search_space(c.problem, c.target, Determinism::kAny);
        Calibration faster;
        faster.factor = {0.5, 1, 2, 1, 0.7, 1};
        CostModel model(c.problem, c.sizes, c.target, c.gpu);
        size_t seen = 0;
        for (const Algorithm& algorithm : space.algorithms) {
          Enumeration found;
          enumerate_blocks(c.problem, c.target, algorithm, &found);
          for (size_t i = 0; i < found.candidates.size(); i += 17, ++seen) {
            const CostEstimate estimate = model.estimate(found.candidates[i]);
            // What a model keeps of other estimates changes nothing.
            if (seen % 5 == 0) {
              ASSERT_EQ(estimate, c.cost(found.candidates[i]));
            }
            ASSERT_TRUE(std::isfinite(estimate.ms));
            ASSERT_GT(estimate.lower_bound_ms, 0);
            ASSERT_LE(estimate.lower_bound_ms, estimate.ms) << to_string(found.candidates[i]);
            ASSERT_GE(estimate.wave_factor, 0.999);
            const CostEstimate applied = apply(estimate, faster);
            ASSERT_LE(applied.lower_bound_ms, applied.ms);
          }
        }
        EXPECT_GT(seen, 30u);
      }
    }
  }
}

TEST(CostModel, ATimeIsAboutLinearInTheWork) {
  const CostEstimate once = make_cost_case(Pass::kForward, 128, 8192).cost();
  const CostEstimate twice = make_cost_case(Pass::kForward, 128, 16384).cost();
  EXPECT_NEAR(twice.ms / once.ms, 4, 0.4);
  const CostEstimate causal = make_cost_case(Pass::kForward, 128, 16384, "sm_90a", true).cost();
  const CostEstimate full = make_cost_case(Pass::kForward, 128, 16384, "sm_90a", false).cost();
  EXPECT_NEAR(full.ms / causal.ms, 2, 0.15);
}

TEST(CostModel, EveryResourceThatASchedulePaysForCostsMore) {
  const CostCase c = make_cost_case(Pass::kForward, 64, 8192);
  const CostEstimate base = c.cost();
  // No overlap, one consumer, no ping-pong: nothing hides anything.
  Schedule alone = c.standard();
  alone.hopper.overlap = alone.hopper.ping_pong = false;
  alone.forward.block_rows = 64;
  EXPECT_GT(c.cost(alone).ms, 1.3 * base.ms);
  // With half as many rows per block the keys are read twice as often.
  EXPECT_NEAR(cost_term(c.cost(alone), Resource::kL2) / cost_term(base, Resource::kL2), 2, 0.1);
  // Fewer scores share a tile's overhead.
  Schedule narrow = c.standard();
  narrow.forward.block_cols = 16;
  EXPECT_GT(cost_term(c.cost(narrow), Resource::kIssue), 1.3 * cost_term(base, Resource::kIssue));
  EXPECT_GT(cost_term(c.cost(narrow), Resource::kShared), 1.2 * cost_term(base, Resource::kShared));
  // The polynomial for every score.
  Schedule full = c.standard();
  full.hopper.evaluator = Evaluator::kFull;
  EXPECT_GT(cost_term(c.cost(full), Resource::kSpecial), 1.5 * cost_term(base, Resource::kSpecial));
  // Loads come late.
  Schedule shallow = c.standard();
  shallow.forward.stages = 2;
  EXPECT_GT(c.cost(shallow).stall_ms, base.stall_ms);
  // Blocks that share loads read the L2 less often.
  Schedule cluster = c.standard();
  cluster.hopper.cluster = 2;
  EXPECT_NEAR(cost_term(c.cost(cluster), Resource::kL2) / cost_term(base, Resource::kL2), 0.5,
              1e-9);
  // Weights through shared memory need its port.
  Schedule weights = c.standard();
  weights.hopper.weights_from = WeightsFrom::kShared;
  EXPECT_GT(cost_term(c.cost(weights), Resource::kShared),
            1.1 * cost_term(base, Resource::kShared));
  // A comparison per score, although nothing can be skipped.
  Schedule skip = c.standard();
  skip.skip_tiles = !skip.skip_tiles;
  EXPECT_GT(std::abs(c.cost(skip).ms - base.ms), 0);
  // Queries in registers do not need the port.
  Schedule registers = c.standard();
  registers.hopper.queries_in_registers = true;
  EXPECT_LT(cost_term(c.cost(registers), Resource::kShared), cost_term(base, Resource::kShared));
}

TEST(CostModel, NothingToDoCostsTheLaunches) {
  CostCase c = make_cost_case(Pass::kForward, 64, 0);
  const CostEstimate estimate = c.cost();
  EXPECT_NEAR(estimate.ms, estimate.launch_ms, 1e-9);
  EXPECT_GT(estimate.launch_ms, 0);
}

TEST(CostModel, EveryTargetAndPassHasAnEstimate) {
  for (const std::string& name : known_target_names()) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      const CostCase c = make_cost_case(pass, 96, 2000, name);
      EXPECT_GT(c.cost().ms, c.cost().launch_ms) << name;
      CostCase fp32 = c;
      fp32.problem.dtype = DType::kFp32;
      EXPECT_GT(fp32.cost().ms, c.cost().ms) << name;
    }
  }
}

TEST(CostModel, JsonNamesTheTerms) {
  const CostEstimate estimate = make_cost_case(Pass::kForward, 64, 8192).cost();
  const nlohmann::json json = to_json(estimate);
  EXPECT_EQ(json["terms_ms"].size(), static_cast<size_t>(kNumResources));
  EXPECT_EQ(json["terms_ms"]["tensor"], cost_term(estimate, Resource::kTensor));
  EXPECT_EQ(json["limit"], resource_name(estimate.limit));
}

}  // namespace
}  // namespace lssar
