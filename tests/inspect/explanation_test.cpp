// Every combination of the search space has one reason, and records decide before estimates.
#include "inspect/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autotune/search/tuner.h"
#include "inspect/explanation_text.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

using testing::HasSubstr;

ExplanationRequest request_for(const Problem& problem, const char* target,
                               std::vector<const TuningTable*> tables = {}) {
  ExplanationRequest request;
  request.problem = problem;
  request.sizes = sizes_of_length(4096);
  request.target = *target_from_name(target);
  request.machine = std::string(target) == "sm_90a" ? h200() : a100();
  request.model = *gpu_model(target);
  request.tables = std::move(tables);
  return request;
}

Problem problem_of(Pass pass, int head_dim, bool causal = true, DType dtype = DType::kBf16) {
  Problem problem = sample_problem(pass);
  problem.head_dim = problem.head_dim_v = head_dim;
  problem.causal = causal;
  problem.dtype = dtype;
  return problem;
}

uint64_t rejected(const Explanation& explanation) {
  uint64_t sum = 0;
  for (const RuleCount& rule : explanation.rejected) sum += rule.count;
  return sum;
}

struct Case {
  const char* name;
  Pass pass;
  int head_dim;
  const char* target;
  bool causal = true;
  DType dtype = DType::kBf16;
};

class ExplanationOf : public testing::TestWithParam<Case> {};

TEST_P(ExplanationOf, NamesAReasonForEveryCombination) {
  const Case& c = GetParam();
  const ExplanationRequest request =
      request_for(problem_of(c.pass, c.head_dim, c.causal, c.dtype), c.target);
  const Explanation explanation = explain(request);

  // What the space holds, counted without the explanation.
  const SearchSpace space = search_space(request.problem, request.target, request.determinism);
  uint64_t combinations = 0;
  for (const Algorithm& algorithm : space.algorithms) {
    uint64_t product = 1;
    for (const Dimension& dimension : algorithm.block) product *= dimension.values.size();
    combinations += product;
  }
  const Algorithm* own = algorithm_of(space, explanation.choice.schedule);
  ASSERT_NE(own, nullptr);
  uint64_t threads = 1;
  for (const Dimension& dimension : own->thread) threads *= dimension.values.size();
  EXPECT_EQ(explanation.combinations, combinations + threads);

  EXPECT_EQ(explanation.combinations,
            explanation.candidates.size() + explanation.duplicates + rejected(explanation));
  const auto counts = explanation.count_by_standing();
  EXPECT_EQ(counts[size_t(Standing::kChosen)], 1u);
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  EXPECT_EQ(total, explanation.candidates.size());
  EXPECT_EQ(explanation.ranked(0).standing, Standing::kChosen);
  for (const ConsideredCandidate& candidate : explanation.candidates) {
    ASSERT_FALSE(reason_of(explanation, candidate).empty());
    ASSERT_GT(candidate.estimate.ms, 0) << to_string(candidate.schedule);
  }
  for (const RuleCount& rule : explanation.rejected) {
    EXPECT_GT(rule.count, 0u);
    EXPECT_EQ(rule_of(rule.example), rule.rule);
  }
}

INSTANTIATE_TEST_SUITE_P(
    TenProblems, ExplanationOf,
    testing::Values(Case{"ampere_d64", Pass::kForward, 64, "sm_80"},
                    Case{"ampere_d128_train", Pass::kForwardTrain, 128, "sm_80"},
                    Case{"ampere_d64_backward", Pass::kBackward, 64, "sm_80"},
                    Case{"ampere_d256_full", Pass::kForward, 256, "sm_80", false},
                    Case{"ampere_d32_fp32", Pass::kForward, 32, "sm_80", true, DType::kFp32},
                    Case{"hopper_d64", Pass::kForward, 64, "sm_90a"},
                    Case{"hopper_d128_fp16", Pass::kForward, 128, "sm_90a", false, DType::kFp16},
                    Case{"hopper_d256", Pass::kForwardTrain, 256, "sm_90a"},
                    Case{"hopper_d96_train", Pass::kForwardTrain, 96, "sm_90a"},
                    Case{"hopper_d128_backward", Pass::kBackward, 128, "sm_90a"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// A record of the sample problem's bucket with fewer stages than the default schedule.
TuningRecord record_with_stages(int stages) {
  TuningRecord record = sample_record();
  record.chosen = false;
  record.schedule.forward.stages = stages;
  const auto hash =
      schedule_source_hash(record.problem, record.schedule, *target_from_name("sm_90a"));
  EXPECT_TRUE(hash.ok()) << hash.status().message();
  if (hash.ok()) record.source_hash = *hash;
  return record;
}

const ConsideredCandidate* find(const Explanation& explanation, const Schedule& schedule) {
  for (const ConsideredCandidate& candidate : explanation.candidates)
    if (candidate.schedule == schedule) return &candidate;
  return nullptr;
}

TEST(Explanation, RecordsDecideBeforeEstimates) {
  const TuningRecord chosen = sample_record();
  ASSERT_GT(chosen.schedule.forward.stages, 6);
  TuningRecord slower = record_with_stages(6);
  slower.ms = 1.5;
  TuningRecord spills = record_with_stages(4);
  spills.verdict = Verdict::kSpills;
  spills.reason = "lssar_forward: 40 bytes";
  spills.ms = 0;
  TuningRecord checked = record_with_stages(2);
  checked.ms = 0;
  TuningTable table;
  for (const TuningRecord& record : {chosen, slower, spills, checked}) table.add(record);
  const Explanation explanation = explain(request_for(sample_problem(), "sm_90a", {&table}));

  EXPECT_EQ(explanation.choice.origin, ScheduleOrigin::kExact);
  ASSERT_TRUE(explanation.record.has_value());
  EXPECT_EQ(explanation.record->ms, 1.25);
  const auto* const second = find(explanation, slower.schedule);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->standing, Standing::kSlower);
  EXPECT_EQ(second, &explanation.ranked(1));  // what was timed stands before estimates
  EXPECT_THAT(reason_of(explanation, *second), HasSubstr("measured 1.5 ms, 1.200 x"));
  const auto* const third = find(explanation, spills.schedule);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->standing, Standing::kRuledOut);
  EXPECT_EQ(reason_of(explanation, *third), "spills: lssar_forward: 40 bytes");
  const auto* const fourth = find(explanation, checked.schedule);
  ASSERT_NE(fourth, nullptr);
  EXPECT_EQ(fourth->standing, Standing::kNotTimed);
}

TEST(Explanation, RecordsOfAnotherGeneratorSayNothing) {
  TuningRecord stale = record_with_stages(6);
  stale.source_hash = "0000000000000000";
  TuningTable table;
  table.add(stale);
  const Explanation explanation = explain(request_for(sample_problem(), "sm_90a", {&table}));
  const auto* const candidate = find(explanation, stale.schedule);
  ASSERT_NE(candidate, nullptr);
  EXPECT_EQ(candidate->record, -1);
}

// They were made without a window.
TEST(Explanation, RecordsSayNothingOfCandidatesWithinAWindow) {
  TuningTable table;
  table.add(sample_record(a100()));
  ExplanationRequest request = request_for(sample_problem(), "sm_80", {&table});
  request.whole_space = false;
  EXPECT_EQ(explain(request).records.size(), 1u);
  request.whole_space = true;
  request.problem.window_left = 100;
  const Explanation explanation = explain(request);
  EXPECT_EQ(explanation.choice.origin, ScheduleOrigin::kNearest);
  EXPECT_TRUE(explanation.records.empty());
  EXPECT_FALSE(explanation.record.has_value());
  EXPECT_TRUE(explanation.is_searched);
  for (const ConsideredCandidate& candidate : explanation.candidates)
    ASSERT_EQ(candidate.record, -1);
}

TEST(Explanation, AScheduleOfTheCallersMayBeNoneOfTheSpace) {
  ExplanationRequest request = request_for(sample_problem(), "sm_90a");
  request.given = default_schedule(request.problem, request.target);
  request.given->hopper.head_group = 5;
  ASSERT_TRUE(validate(*request.given, request.problem, request.target).ok());
  const Explanation explanation = explain(request);
  EXPECT_EQ(explanation.choice.origin, ScheduleOrigin::kGiven);
  EXPECT_EQ(explanation.ranked(0).standing, Standing::kChosen);
  EXPECT_EQ(explanation.combinations,
            explanation.candidates.size() + explanation.duplicates + rejected(explanation));
}

TEST(Explanation, JsonHasEveryCount) {
  const ExplanationRequest request = request_for(sample_problem(Pass::kBackward), "sm_80");
  const Explanation explanation = explain(request);
  const nlohmann::json json = explanation_json(explanation, request, nullptr, 3);
  uint64_t sum = json["same_kernel"].get<uint64_t>();
  for (const auto& rule : json["not_legal"]) sum += rule["count"].get<uint64_t>();
  for (const auto& [name, count] : json["standings"].items()) sum += count.get<uint64_t>();
  EXPECT_EQ(sum, json["combinations"].get<uint64_t>());
  EXPECT_EQ(json["candidates"].size(), 3u);
  EXPECT_EQ(json["candidates"][0]["standing"], "chosen");
  EXPECT_TRUE(json["kernels"].is_null());
}

TEST(Explanation, SaysWhatTrainingSaves) {
  Problem problem = sample_problem(Pass::kForwardTrain);
  problem.head_dim = problem.head_dim_v = 128;
  ExplanationRequest request = request_for(problem, "sm_90a");
  const auto text = [&] {
    return explanation_text(explain(request), request, nullptr, {1, false});
  };
  EXPECT_THAT(text(), HasSubstr("saved      528 bytes per row and head: 256 what rounding took "
                                "from o, 16 statistics, 256 X\n"));
  request.given = default_schedule(problem, request.target, DqMode::kSplit, EpsilonFrom::kPass);
  EXPECT_THAT(text(), HasSubstr("saved      272 bytes per row and head: 256 what rounding took "
                                "from o, 16 statistics\n"));
  request = request_for(problem, "sm_80");
  request.problem.dtype = DType::kFp32;
  const nlohmann::json json = explanation_json(explain(request), request, nullptr, 1);
  EXPECT_EQ(json["saved_bytes_per_row"],
            (nlohmann::json{{"o", 0}, {"stats", 16}, {"x", 512}}));
}

TEST(Explanation, TextNamesTheLimitAndTheEvidence) {
  TuningTable table;
  table.add(sample_record());
  const ExplanationRequest request = request_for(sample_problem(), "sm_90a", {&table});
  const Explanation explanation = explain(request);
  const std::string text = explanation_text(explanation, request, nullptr, {2, false});
  EXPECT_THAT(text, HasSubstr("schedule   tuned (exact: measured 1.25 ms on NVIDIA H200"));
  EXPECT_THAT(text, HasSubstr(std::string("limit: ") + resource_name(explanation.estimate.limit)));
  EXPECT_THAT(text, HasSubstr("relative L2 error 2.10e-03; the plain kernel's 2.00e-03"));
  EXPECT_THAT(text, HasSubstr(std::string(40, '#')));
  EXPECT_EQ(text.find("\xE2\x96"), std::string::npos);  // no block characters
}

}  // namespace
}  // namespace lssar
