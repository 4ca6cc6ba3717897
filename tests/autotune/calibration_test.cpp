#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "autotune/model/cost_model.h"
#include "autotune/space/search_space.h"

namespace lssar {
namespace {

// Records of schedules of several problems, whose times are the model's with other factors.
std::vector<TuningRecord> synthetic_records(const Calibration& truth, double noise, int count) {
  const Target target = *target_from_name("sm_90a");
  const GpuModel gpu = *gpu_model("sm_90a");
  std::mt19937_64 random(7);
  std::normal_distribution<double> scatter(0, noise);
  std::vector<TuningRecord> records;
  const std::pair<Pass, int> problems[] = {{Pass::kForward, 64},
                                           {Pass::kForward, 256},
                                           {Pass::kForwardTrain, 128},
                                           {Pass::kBackward, 64}};
  for (const auto& [pass, dim] : problems) {
    TuningRecord record;
    record.problem.causal = true;
    record.problem.pass = pass;
    record.problem.head_dim = record.problem.head_dim_v = dim;
    record.sizes = {4, 16, 16, 8192, 8192};
    record.bucket = bucket_of(record.problem, record.sizes, Determinism::kAny);
    record.machine.target = "sm_90a";
    record.evidence = Evidence::kMeasured;
    record.verdict = Verdict::kOk;
    const SearchSpace space = search_space(record.problem, target, Determinism::kAny);
    std::vector<Schedule> all;
    for (const Algorithm& algorithm : space.algorithms) {
      Enumeration found;
      enumerate_blocks(record.problem, target, algorithm, &found);
      all.insert(all.end(), found.candidates.begin(), found.candidates.end());
    }
    for (int i = 0; i < count / 4; ++i) {
      record.schedule = all[random() % all.size()];
      const CostEstimate estimate =
          estimate_cost(record.problem, record.sizes, record.schedule, target, gpu);
      record.ms = apply(estimate, truth).ms * std::exp(scatter(random));
      records.push_back(record);
    }
  }
  return records;
}

Calibration known_factors() {
  Calibration truth;
  truth.factor = {1.2, 0.8, 1.3, 1.1, 1, 1};
  return truth;
}

TEST(Calibration, FindsTheFactorsThatMadeTheTimes) {
  const std::vector<TuningRecord> records = synthetic_records(known_factors(), 0.03, 240);
  const Calibration found = calibrate(records, *gpu_model("sm_90a"));
  EXPECT_EQ(found.records, 240);
  // Instruction slots and shared memory decide most of these times; products and special functions
  // fewer of them.
  EXPECT_NEAR(found.factor[static_cast<size_t>(Resource::kIssue)], 1.3, 0.06);
  EXPECT_NEAR(found.factor[static_cast<size_t>(Resource::kShared)], 1.1, 0.06);
  EXPECT_NEAR(found.factor[static_cast<size_t>(Resource::kTensor)], 1.2, 0.15);
  EXPECT_NEAR(found.factor[static_cast<size_t>(Resource::kSpecial)], 0.8, 0.15);
  EXPECT_GT(found.rank_correlation, 0.97);
}

TEST(Calibration, MakesEstimatesFitBetter) {
  const GpuModel gpu = *gpu_model("sm_90a");
  const std::vector<TuningRecord> records = synthetic_records(known_factors(), 0.02, 120);
  const Calibration found = calibrate(records, gpu);
  double before = 0, after = 0;
  for (const TuningRecord& record : records) {
    const CostEstimate estimate = estimate_cost(record.problem, record.sizes, record.schedule,
                                                *target_from_name("sm_90a"), gpu);
    before += std::pow(std::log(estimate.ms / record.ms), 2);
    after += std::pow(std::log(apply(estimate, found).ms / record.ms), 2);
  }
  EXPECT_LT(after, 0.1 * before);
  EXPECT_LT(std::sqrt(after / static_cast<double>(records.size())), 0.03);
}

TEST(Calibration, LeavesTermsAloneThatNothingDependsOn) {
  Calibration truth;  // all 1
  const Calibration found = calibrate(synthetic_records(truth, 0.03, 240), *gpu_model("sm_90a"));
  for (const double factor : found.factor) EXPECT_NEAR(factor, 1, 0.15);
}

TEST(Calibration, NeedsAFewRecords) {
  std::vector<TuningRecord> records = synthetic_records(known_factors(), 0, 40);
  records.resize(7);
  const Calibration found = calibrate(records, *gpu_model("sm_90a"));
  EXPECT_EQ(found.records, 7);
  for (const double factor : found.factor) EXPECT_EQ(factor, 1);
  EXPECT_TRUE(std::isnan(calibrate({}, *gpu_model("sm_90a")).rank_correlation));
}

TEST(Calibration, TakesOnlyWhatWasMeasuredRightOnTheTarget) {
  std::vector<TuningRecord> records = synthetic_records(known_factors(), 0, 40);
  records[0].evidence = Evidence::kPredicted;
  records[1].verdict = Verdict::kWrong;
  records[2].ms = 0;
  records[3].machine.target = "sm_80";
  records[4].schedule.forward.block_cols = 17;  // no longer legal
  records[5].ms = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(calibrate(records, *gpu_model("sm_90a")).records, 34);
}

TEST(Calibration, FactorsOfOneChangeNothing) {
  const std::vector<TuningRecord> records = synthetic_records(known_factors(), 0, 4);
  const CostEstimate estimate =
      estimate_cost(records[0].problem, records[0].sizes, records[0].schedule,
                    *target_from_name("sm_90a"), *gpu_model("sm_90a"));
  EXPECT_DOUBLE_EQ(apply(estimate, Calibration{}).ms, estimate.ms);
}

// Ranks 1 2 3 4 5 against 1 3 2 5 4: 1 - 6 * 4 / (5 * 24) = 0.8.
TEST(RankCorrelation, AgreesWithCountingByHand) {
  EXPECT_DOUBLE_EQ(rank_correlation({10, 20, 30, 40, 50}, {1, 3, 2, 5, 4}), 0.8);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
}

// Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
TEST(RankCorrelation, TiesHaveTheMeanOfTheirRanks) {
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {5, 6, 7, 8}), 4.5 / std::sqrt(4.5 * 5), 1e-12);
}

TEST(RankCorrelation, IsNotDefinedForTooFewOrAllAlike) {
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2}, {1, 2})));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 1, 1}, {1, 2, 3})));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2, 3}, {1, 2, 3, 4})));
}

}  // namespace
}  // namespace lssar
