// Each feature alone and with each other: pairs of windows, sequences, heads that share keys,
// types, score functions, sinks, layouts, passes, rotary positions, compilers and devices, with the
// kernels that they have: usual ones, those of invariant, for few queries, and Hopper's. A row of a
// covering array is a call; all calls together have every pair of values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "compile/compiler.h"
#include "tests/golden/feature_check.h"

namespace lssar {
namespace {

using testing::HasSubstr;

bool has_pair(size_t a, int i, size_t b, int j) {
  const std::vector<FactorRow>& rows = feature_rows();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const FactorRow& row) { return row[a] == i && row[b] == j; });
}

TEST(FeatureRows, HaveEveryAllowedPair) {
  const std::vector<FeatureFactor>& factors = feature_factors();
  int num_pairs = 0, num_refused = 0;
  for (size_t a = 0; a < factors.size(); ++a)
    for (size_t b = a + 1; b < factors.size(); ++b)
      for (size_t i = 0; i < factors[a].values.size(); ++i)
        for (size_t j = 0; j < factors[b].values.size(); ++j) {
          FactorRow pair(factors.size(), kAnyValue);
          pair[a] = static_cast<int>(i);
          pair[b] = static_cast<int>(j);
          const bool is_allowed = allows_features(pair);
          EXPECT_EQ(has_pair(a, pair[a], b, pair[b]), is_allowed)
              << factors[a].name << " " << factors[a].values[i] << ", " << factors[b].name << " "
              << factors[b].values[j];
          (is_allowed ? num_pairs : num_refused) += 1;
        }
  RecordProperty("pairs", num_pairs);
  // A sink with two scores, psi with two powers. Hopper's kernels by two compilers with fp32 and
  // unaligned rows. Three kernels for few queries, and new keys, with two passes.
  EXPECT_EQ(num_refused, 4 + 2 * 2 + (3 + 1) * 2);
}

TEST(FeatureRows, AreAllowed) {
  for (const FactorRow& row : feature_rows())
    EXPECT_TRUE(allows_features(row)) << feature_name(row);
}

class FeaturePairs : public testing::TestWithParam<size_t> {};

std::string why_not(const FeatureDevice& device) {
  std::string why;
  if (device.device == LSSAR_DEVICE_CPU) return can_run_cpu_kernels(&why) ? "" : why;
  const CompilerChoice choice =
      device.compiler == LSSAR_COMPILER_NVRTC ? CompilerChoice::kNvrtc : CompilerChoice::kLlvm;
  const auto compiler = open_compiler(choice);
  return compiler.ok() ? "" : compiler.status().to_string();
}

// The schedule of one pass, as JSON; "" if the plan does not have the pass.
std::string schedule_of(const lssar_plan* plan, int32_t pass) {
  lssar_schedule_info info = {};
  info.struct_size = sizeof(info);
  return lssar_plan_get_schedule(plan, pass, &info) == LSSAR_STATUS_OK ? info.schedule_json : "";
}

// Without this the pair of Hopper and a window, say, could be a call that other kernels compute.
TEST(FeatureRows, HaveTheKernelsOfTheirDevice) {
  for (const FactorRow& row : feature_rows()) {
    SCOPED_TRACE(feature_name(row));
    const FeatureCase c = feature_case(row, 0);
    if (c.device.device == LSSAR_DEVICE_CPU || !why_not(c.device).empty()) continue;
    lssar_plan* made = nullptr;
    EXPECT_EQ(make_plan(feature_context(c.device, 0), c, &made), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    const PlanPtr plan(made);
    for (const int32_t pass : {LSSAR_PASS_FORWARD, LSSAR_PASS_FORWARD_TRAIN, LSSAR_PASS_BACKWARD}) {
      const std::string schedule = schedule_of(plan.get(), pass);
      if (schedule.empty()) continue;
      EXPECT_EQ(schedule.find(R"("variant":"hopper")") != std::string::npos,
                c.device.kernels == FeatureKernels::kHopper);
      EXPECT_EQ(schedule.find(R"("split_keys":128)") != std::string::npos,
                c.device.has_few_queries());
    }
  }
}

// A row's number, or with LSSAR_TEST_SEED_TURN another one: other lengths, inputs and orders of
// warps for the same kernels.
int number_of(size_t row) {
  constexpr int kRowsPerTurn = 7;  // no multiple of how many sets of lengths there are
  const char* turn = std::getenv("LSSAR_TEST_SEED_TURN");
  return static_cast<int>(row) + kRowsPerTurn * (turn == nullptr ? 0 : std::atoi(turn));
}

TEST_P(FeaturePairs, AreRight) {
  const FeatureCase c = feature_case(feature_rows()[GetParam()], number_of(GetParam()));
  if (const std::string why = why_not(c.device); !why.empty()) GTEST_SKIP() << why;
  check_features(c);
}

INSTANTIATE_TEST_SUITE_P(Rows, FeaturePairs, testing::Range(size_t{0}, feature_rows().size()),
                         [](const testing::TestParamInfo<size_t>& param_info) {
                           return feature_name(feature_rows()[param_info.param]);
                         });

// ---- what allows_features leaves out

FactorRow with_values(std::initializer_list<std::pair<Feature, const char*>> wanted) {
  FactorRow row(feature_factors().size(), 0);
  for (const auto& [feature, name] : wanted) {
    const std::vector<std::string>& values = feature_factors()[feature].values;
    row[feature] = static_cast<int>(std::find(values.begin(), values.end(), name) - values.begin());
  }
  return row;
}

void expect_refused(const FactorRow& row, lssar_status status, const char* detail) {
  EXPECT_FALSE(allows_features(row));
  const FeatureCase c = feature_case(row, 0);
  lssar_plan* plan = nullptr;
  EXPECT_EQ(make_plan(feature_context(c.device, 0), c, &plan), status);
  EXPECT_THAT(lssar_last_error_detail(), HasSubstr(detail));
  lssar_plan_destroy(plan);
}

TEST(FeatureRules, AreTheLibrarys) {
  LSSAR_NEEDS_CPU_KERNELS();
  expect_refused(with_values({{kSinkFeature, "sink"}}), LSSAR_STATUS_INVALID_ARGUMENT,
                 "score.sink = per_head with score.phi = softplus: allowed is none, or score.phi = "
                 "exp");
  expect_refused(with_values({{kScoreFeature, "psi"}, {kPowerFeature, "p3"}}),
                 LSSAR_STATUS_INVALID_ARGUMENT, "with p = 3: allowed is one of them");
  expect_refused(with_values({{kPassFeature, "backward"}, {kScheduleFeature, "atomic"}}),
                 LSSAR_STATUS_INVALID_ARGUMENT,
                 "schedule.dq_mode = atomic: allowed are ordered and split on");
  expect_refused(with_values({{kPassFeature, "backward"},
                              {kScheduleFeature, "split"},
                              {kDeviceFeature, "invariant_cpu"}}),
                 LSSAR_STATUS_INVALID_ARGUMENT,
                 "schedule.dq_mode = split: allowed is ordered with problem.invariant");
  expect_refused(with_values({{kPassFeature, "backward"},
                              {kScheduleFeature, "atomic"},
                              {kDeviceFeature, "invariant_nvrtc_sm_90a"}}),
                 LSSAR_STATUS_INVALID_ARGUMENT,
                 "schedule.dq_mode = atomic: allowed is split with problem.invariant");
}

}  // namespace
}  // namespace lssar
