// The search with loops that were read from machine code: the sum of both models decides what is
// timed first, and who wins where times are only predicted.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "autotune/search/search_report.h"
#include "tests/autotune/search_fixture.h"

namespace lssar {
namespace {

// The forward at d 64, causal, that an H100 timed (docs/timing_model.md).
class SumSearchTest : public SearchTest {
 protected:
  SumSearchTest() {
    request_.sizes = {2, 16, 16, 8192, 8192};
    request_.budget = *budget_named("quick");
    runner_.evidence_ = Evidence::kPredicted;
    runner_.ms_of = [this](const Schedule& schedule) { return model().estimate(schedule).ms; };
    default_ = default_schedule(request_.problem, request_.target);
    three_ = default_;
    three_.hopper.ping_pong = true;
    three_.hopper.score_cols = 96;
    three_.forward.block_rows = 192;
    three_.forward.block_cols = 112;
    three_.forward.stages = 6;
  }

  CostModel model() const {
    return CostModel(request_.problem, request_.sizes, request_.target, request_.model);
  }
  // Makes it the incumbent, which is tried whatever the cost model says.
  void add_incumbent(const Schedule& schedule) {
    TuningRecord record;
    record.problem = request_.problem;
    record.sizes = request_.sizes;
    record.bucket = bucket_of(record.problem, record.sizes, request_.determinism);
    record.schedule = schedule;
    record.source_hash = *schedule_source_hash(record.problem, schedule, request_.target);
    record.machine = runner_.machine();
    record.evidence = Evidence::kMeasured;
    record.ms = 1;
    record.chosen = true;
    record.time = "2026-11-21T13:16:13Z";
    table_.add(record);
    resumes_ = true;
  }
  // What ptxas 13.0's code of these two takes, by the timing model.
  void use_recorded_loops() {
    request_.loop_clocks = [this](const CandidateSpec& candidate) -> Result<std::vector<double>> {
      if (candidate.schedule == default_) return std::vector<double>{0.0888, 0.0950};
      if (candidate.schedule == three_) return std::vector<double>{0.0776, 0.0965};
      return unsupported("not recorded");
    };
  }
  // Loops that take as long as the cost model says, and `factor` times that for some schedules.
  void use_loops(const std::function<double(const Schedule&)>& factor) {
    request_.loop_clocks = [factor](const CandidateSpec& candidate) -> Result<std::vector<double>> {
      const double clocks = 0.1 * factor(candidate.schedule);
      return std::vector<double>{clocks, clocks};
    };
  }

  Schedule default_, three_;
};

TEST_F(SumSearchTest, WhatTheSumPutsFirstWinsWithoutAGpu) {
  add_incumbent(three_);
  // The cost model takes three consumers to spill. ptxas says that they do not.
  EXPECT_GT(model().estimate(three_).ms, 1.2 * model().estimate(default_).ms);
  const TuningTable before = table_;
  EXPECT_NE(run().winner.schedule, three_);
  table_ = before;
  use_recorded_loops();
  const SearchOutcome outcome = run();
  EXPECT_EQ(outcome.winner.schedule, three_);
  EXPECT_EQ(outcome.with_sum, 2);
  EXPECT_GT(outcome.without_sum, 5);
  EXPECT_NEAR(outcome.default_ms / outcome.winner.ms, 1.036, 0.002);
  EXPECT_EQ(
      order_text(outcome).find("Ranked by the sum of the cost model and the timing model: 2 "), 0u);
  EXPECT_NE(order_text(outcome).find("the others by the cost model alone: "), std::string::npos);
}

TEST_F(SumSearchTest, WithoutMachineCodeTheCostModelRanksAndTheReportSaysWhy) {
  const SearchOutcome plain = run();
  EXPECT_EQ(order_text(plain),
            "Ranked by the cost model and counts alone: no machine code was read");
  table_ = TuningTable();
  request_.loop_clocks = [](const CandidateSpec&) -> Result<std::vector<double>> {
    return missing("no nvdisasm");
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(outcome.winner.schedule, plain.winner.schedule);
  EXPECT_EQ(outcome.winner.ms, plain.winner.ms);
  EXPECT_EQ(order_text(outcome), "Ranked by the cost model and counts alone: no nvdisasm");
  EXPECT_NE(report_text(outcome, request_.problem, request_.target, 5).find(order_text(outcome)),
            std::string::npos);
  EXPECT_EQ(to_json(outcome)["order"], order_text(outcome));
  EXPECT_EQ(outcome.with_sum, 0);
}

TEST_F(SumSearchTest, LoopsThatAreNotThoseOfThePassesCountAsNone) {
  request_.loop_clocks = [](const CandidateSpec&) -> Result<std::vector<double>> {
    return std::vector<double>{0.1};
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(outcome.with_sum, 0);
  EXPECT_NE(order_text(outcome).find("does not find the loops"), std::string::npos);
}

// In a unit that is comparable: half the estimate beside loops of the default that are far too slow
// for the cost model's unit.
TEST_F(SumSearchTest, ACandidateWithoutASumKeepsItsEstimatesRatioToTheFirst) {
  request_.loop_clocks = [this](const CandidateSpec& candidate) -> Result<std::vector<double>> {
    if (candidate.schedule == default_) return std::vector<double>{5.0, 5.0};
    return unsupported("not recorded");
  };
  const SearchOutcome outcome = run();
  CostModel cost = model();
  const double by_default = cost.estimate(default_).ms;
  ASSERT_EQ(outcome.with_sum, 1);
  for (const CandidateFate& fate : outcome.fates) {
    if (fate.ms <= 0) continue;
    EXPECT_NEAR(fate.ms / outcome.default_ms, fate.estimate_ms / by_default, 1e-9);
  }
}

TEST_F(SumSearchTest, CodeWithSpillsIsNotRead) {
  runner_.evidence_ = Evidence::kMeasured;
  runner_.on_compile = [](const CandidateSpec&) {
    CompileReport report;
    report.spill_bytes = 32;
    return report;
  };
  use_loops([](const Schedule&) {
    ADD_FAILURE() << "read";
    return 1.0;
  });
  EXPECT_EQ(order_text(run()),
            "Timed first what is best by the cost model alone: its machine code has spills");
}

TEST_F(SumSearchTest, ABackwardIsNotRead) {
  request_.problem.pass = Pass::kBackward;
  use_loops([](const Schedule&) {
    ADD_FAILURE() << "read";
    return 1.0;
  });
  EXPECT_NE(order_text(run()).find("alone: only forwards"), std::string::npos);
}

TEST_F(SumSearchTest, OnAGpuItDecidesWhatIsTimedFirst) {
  // At d 64 most of what the cost model keeps is staggered, and has no sum.
  request_.problem.head_dim = request_.problem.head_dim_v = 128;
  default_ = default_schedule(request_.problem, request_.target);
  runner_.evidence_ = Evidence::kMeasured;
  std::map<std::string, int> read;  // in which place
  use_loops([&](const Schedule& schedule) {
    const int place = int(read.size()) + 1;
    read[to_string(schedule)] = place;
    return 10.0 / place;  // each is better than those before
  });
  // What is checked between two timings is a batch.
  std::map<int, std::vector<Schedule>> batches;
  runner_.on_check = [&](const CandidateSpec& candidate, CheckDepth depth) {
    if (depth == CheckDepth::kQuick) batches[runner_.num_time_calls].push_back(candidate.schedule);
    return CheckReport();
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(order_text(outcome).find("Timed first what is best by the sum of the cost model and"),
            0u);
  EXPECT_EQ(batches[0][0], default_);  // whatever its sum
  int pairs = 0;
  for (const auto& [calls, batch] : batches) {
    int last = 1000;
    for (const Schedule& schedule : batch) {
      const auto place = read.find(to_string(schedule));
      if (schedule == default_ || place == read.end()) continue;
      EXPECT_LT(place->second, last);
      pairs += last < 1000;
      last = place->second;
    }
  }
  EXPECT_GT(pairs, 2);
}

TEST_F(SumSearchTest, ASearchThatGoesOnReadsWhatWasCountedBefore) {
  use_loops([](const Schedule& schedule) { return 1 + 0.1 * (schedule.forward.block_cols % 7); });
  request_.budget = *budget_named("normal");
  std::map<std::string, double> ratios;  // to the default
  const SearchOutcome fresh = run();
  for (const CandidateFate& fate : fresh.fates)
    if (fate.sum_ms > 0) ratios[to_string(fate.schedule)] = fate.ms / fresh.default_ms;
  table_ = TuningTable();
  request_.budget = *budget_named("quick");
  run();
  resumes_ = true;
  request_.budget = *budget_named("normal");
  const SearchOutcome outcome = run();
  EXPECT_GT(outcome.reused, 0);
  EXPECT_EQ(outcome.without_sum + outcome.with_sum, outcome.timed);
  int same = 0;
  for (const CandidateFate& fate : outcome.fates) {
    const auto ratio = ratios.find(to_string(fate.schedule));
    if (ratio == ratios.end() || fate.ms <= 0) continue;
    ++same;
    EXPECT_NEAR(fate.ms / outcome.default_ms, ratio->second, 1e-9);
  }
  EXPECT_GT(same, 5);
}

TEST_F(SumSearchTest, ThreadsChangeNothing) {
  use_loops([](const Schedule& schedule) { return 1 + 0.1 * (schedule.forward.block_cols % 7); });
  const SearchOutcome one = run();
  table_ = TuningTable();
  request_.parallel_compiles = 4;
  const SearchOutcome four = run();
  EXPECT_EQ(four.winner.schedule, one.winner.schedule);
  EXPECT_EQ(four.winner.ms, one.winner.ms);
}

}  // namespace
}  // namespace lssar
