// The search over the real space with made-up times and verdicts: what it keeps, drops and chooses.
#include "autotune/search/search.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/autotune/fake_runner.h"

namespace lssar {
namespace {

// Made up, and not the cost model's order. No two schedules take the same time.
double made_up_ms(const Schedule& schedule) {
  const Tiling& tiling = schedule.forward;
  const double width = std::abs(tiling.block_cols - 112) / 112.0;
  return 1 + 0.5 * width + 0.1 * std::abs(tiling.stages - 3) +
         (schedule.variant == Variant::kPortable ? 1 : 0) +
         1e-4 * double(std::hash<std::string>()(to_string(schedule)) % 1009) / 1009;
}

class SearchTest : public testing::Test {
 protected:
  SearchTest() {
    request_.problem.causal = true;
    request_.problem.head_dim = request_.problem.head_dim_v = 64;
    request_.sizes = {1, 16, 16, 4096, 4096};
    request_.target = *target_from_name("sm_90a");
    request_.gpu = *gpu_model("sm_90a");
    request_.budget = *budget_named("normal");
    request_.keep_record = [this](const TuningRecord& record) {
      table_.add(record);
      return Status();
    };
    request_.now_s = [this] { return runner_.clock_s; };
    runner_.ms_of = made_up_ms;
  }

  SearchOutcome run() {
    const TuningTable known = table_;
    if (resumes_) request_.known = &known;
    Result<SearchOutcome> outcome = search(runner_, request_);
    request_.known = nullptr;
    EXPECT_TRUE(outcome.ok()) << outcome.status().to_string();
    return outcome.ok() ? std::move(*outcome) : SearchOutcome();
  }
  int count(const SearchOutcome& outcome, Fate fate) const {
    int n = 0;
    for (const CandidateFate& one : outcome.fates) n += one.fate == fate;
    return n;
  }

  FakeRunner runner_;
  SearchRequest request_;
  TuningTable table_;
  bool resumes_ = false;
};

TEST_F(SearchTest, TheFastestOfThoseTriedWins) {
  const SearchOutcome outcome = run();
  EXPECT_EQ(count(outcome, Fate::kWon), 1);
  ASSERT_GT(outcome.timed, 10);
  for (const CandidateFate& fate : outcome.fates) {
    if (fate.ms <= 0) continue;
    // The noise may keep an incumbent that is less than 2 % slower.
    EXPECT_GE(made_up_ms(fate.schedule) * 1.021, made_up_ms(outcome.winner.schedule));
  }
  EXPECT_TRUE(outcome.winner.chosen);
  EXPECT_EQ(outcome.winner.evidence, Evidence::kMeasured);
  EXPECT_NEAR(outcome.winner.ms, made_up_ms(outcome.winner.schedule), 1e-9);
  EXPECT_GT(outcome.default_ms, 0);
}

TEST_F(SearchTest, EveryCandidateHasOneFateAndCountsAddUp) {
  const SearchOutcome outcome = run();
  uint64_t rejected = 0;
  for (const auto& [rule, n] : outcome.rejected_by_rule) rejected += n;
  EXPECT_GT(rejected, 0u);
  EXPECT_EQ(outcome.combinations - outcome.duplicates - rejected, outcome.fates.size());
  for (const CandidateFate& fate : outcome.fates) {
    if (fate.fate == Fate::kWon) continue;
    EXPECT_FALSE(fate.reason.empty()) << fate_name(fate.fate) << to_string(fate.schedule);
  }
}

TEST_F(SearchTest, EveryAlgorithmHasItsQuota) {
  const SearchOutcome outcome = run();
  std::set<std::string> tried, all;
  for (const CandidateFate& fate : outcome.fates) {
    all.insert(fate.algorithm);
    if (fate.ms > 0 || fate.fate == Fate::kBound) tried.insert(fate.algorithm);
  }
  EXPECT_EQ(tried, all);
}

TEST_F(SearchTest, AFastCandidateThatIsWrongNeverWins) {
  // Wrong where it is fastest, and found by the quick check.
  runner_.on_check = [](const CandidateSpec& candidate, CheckDepth) {
    CheckReport report;
    if (candidate.schedule.forward.stages == 3) {
      report.verdict = Verdict::kWrong;
      report.reason = "o: off by one at the causal edge";
      report.error = 0.5;
    }
    return report;
  };
  const SearchOutcome outcome = run();
  EXPECT_NE(outcome.winner.schedule.forward.stages, 3);
  int recorded = 0;
  for (const TuningRecord& record : table_.records()) {
    if (record.verdict != Verdict::kWrong) continue;
    ++recorded;
    EXPECT_EQ(record.reason, "o: off by one at the causal edge");
    EXPECT_FALSE(record.chosen);
  }
  EXPECT_EQ(recorded, count(outcome, Fate::kRuledOut));
}

TEST_F(SearchTest, AnAlgorithmWhoseNumbersAreWrongIsGivenUp) {
  std::map<std::string, int> checked;
  runner_.on_check = [&](const CandidateSpec& candidate, CheckDepth) {
    CheckReport report;
    const Schedule& schedule = candidate.schedule;
    if (schedule.variant == Variant::kHopper && schedule.hopper.persistent &&
        schedule.hopper.stagger == 1) {
      ++checked["persistent"];
      report.verdict = Verdict::kWrong;
      report.reason = "o: opposed data";
    }
    return report;
  };
  const SearchOutcome outcome = run();
  int given_up = 0;
  for (const CandidateFate& fate : outcome.fates) {
    given_up += fate.reason.rfind("algorithm wrong", 0) == 0;
  }
  EXPECT_GT(given_up, 0);
  // Three of an algorithm, and what its batch had more.
  EXPECT_GE(checked["persistent"], 3);
  EXPECT_LT(checked["persistent"], request_.budget.keep_blocks / 2);
  EXPECT_GT(outcome.timed, 5);
}

TEST_F(SearchTest, TheBestOfEveryAlgorithmComesFirst) {
  std::vector<std::string> order;
  runner_.on_compile = [&](const CandidateSpec& candidate) {
    order.push_back(to_string(candidate.schedule));
    return CompileReport();
  };
  const SearchOutcome outcome = run();
  std::set<std::string> all, early;
  std::map<std::string, std::string> algorithm_of_schedule;
  for (const CandidateFate& fate : outcome.fates) {
    all.insert(fate.algorithm);
    algorithm_of_schedule[to_string(fate.schedule)] = fate.algorithm;
  }
  for (size_t i = 0; i < order.size() && i < all.size() + 1; ++i) {
    early.insert(algorithm_of_schedule[order[i]]);
  }
  EXPECT_EQ(early, all);
}

TEST_F(SearchTest, AWinnerThatFailsTheFullCheckMakesRoomForTheNext) {
  Schedule refused;
  runner_.on_check = [&](const CandidateSpec& candidate, CheckDepth depth) {
    CheckReport report;
    if (depth == CheckDepth::kFull && runner_.num_full_checks == 1) {
      refused = candidate.schedule;
      report.verdict = Verdict::kRace;
      report.reason = "shared word 16";
    }
    return report;
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(runner_.num_full_checks, 2);
  EXPECT_FALSE(outcome.winner.schedule == refused);
  EXPECT_EQ(outcome.winner.verdict, Verdict::kOk);
  int races = 0;
  for (const TuningRecord& record : table_.records()) races += record.verdict == Verdict::kRace;
  EXPECT_EQ(races, 1);
}

TEST_F(SearchTest, SpillsAreRuledOutBeforeTheyRun) {
  std::set<std::string> spilled;
  runner_.on_compile = [&](const CandidateSpec& candidate) {
    CompileReport report;
    report.registers = 255;
    if (!candidate.schedule.hopper.persistent) {
      report.verdict = Verdict::kSpills;
      report.reason = "32 bytes";
      report.spill_bytes = 32;
      spilled.insert(to_string(candidate.schedule));
    }
    return report;
  };
  runner_.on_check = [&](const CandidateSpec& candidate, CheckDepth) {
    EXPECT_FALSE(spilled.contains(to_string(candidate.schedule)));
    return CheckReport();
  };
  const SearchOutcome outcome = run();
  EXPECT_FALSE(spilled.empty());
  EXPECT_TRUE(outcome.winner.schedule.hopper.persistent);
}

TEST_F(SearchTest, WhereAllThatIsKeptFallsMoreIsTried) {
  runner_.on_compile = [&](const CandidateSpec&) {
    CompileReport report;
    if (runner_.num_compiled <= request_.budget.keep_blocks + 1) {
      report.verdict = Verdict::kSpills;
      report.reason = "32 bytes";
    }
    return report;
  };
  const SearchOutcome outcome = run();
  EXPECT_GT(outcome.compiled, request_.budget.keep_blocks + 1);
  EXPECT_TRUE(outcome.winner.chosen);
}

TEST_F(SearchTest, GainsWithinTheNoiseKeepTheDefault) {
  const Schedule by_default = default_schedule(request_.problem, request_.target);
  runner_.ms_of = [&](const Schedule& schedule) {
    return schedule == by_default ? 1.0 : 0.985;  // 1.5 %
  };
  const SearchOutcome outcome = run();
  EXPECT_TRUE(outcome.kept_incumbent);
  EXPECT_EQ(outcome.winner.schedule, by_default);
}

TEST_F(SearchTest, GainsBeyondTheNoiseDoNot) {
  const Schedule by_default = default_schedule(request_.problem, request_.target);
  runner_.ms_of = [&](const Schedule& schedule) {
    return schedule == by_default ? 1.0 : 0.975;  // 2.5 %
  };
  const SearchOutcome outcome = run();
  EXPECT_FALSE(outcome.kept_incumbent);
  EXPECT_FALSE(outcome.winner.schedule == by_default);
  EXPECT_NEAR(outcome.default_ms / outcome.winner.ms, 1 / 0.975, 1e-6);
}

TEST_F(SearchTest, AGainMustBeBeyondTheSpreadOfItsRatios) {
  const Schedule by_default = default_schedule(request_.problem, request_.target);
  runner_.ms_of = [&](const Schedule& schedule) {
    return schedule == by_default ? 1.0 : 0.95;  // 5 %, and ratios that differ by more
  };
  runner_.jitter = 0.2;
  const SearchOutcome outcome = run();
  EXPECT_GT(outcome.noise, 0.05);
  EXPECT_EQ(outcome.winner.schedule, by_default);
}

TEST_F(SearchTest, ClocksThatDriftDoNotChangeTheWinner) {
  const Schedule quiet = run().winner.schedule;
  table_ = TuningTable();
  runner_.num_time_calls = 0;
  runner_.drift = 1.2;
  EXPECT_EQ(run().winner.schedule, quiet);
}

TEST_F(SearchTest, OneThatHangsIsRuledOutAndTheOthersAreTimed) {
  runner_.on_time = [](const CandidateSpec& candidate) {
    TimeReport report;
    if (candidate.schedule.forward.stages == 3) {
      report.verdict = Verdict::kTimeout;
      report.reason = "30 s";
    }
    return report;
  };
  const SearchOutcome outcome = run();
  EXPECT_NE(outcome.winner.schedule.forward.stages, 3);
  EXPECT_GT(outcome.timed, 5);
  EXPECT_GT(count(outcome, Fate::kRuledOut), 0);
}

TEST_F(SearchTest, ASecondSearchRunsNothing) {
  const SearchOutcome first = run();
  const int compiled = runner_.num_compiled;
  resumes_ = true;
  const SearchOutcome second = run();
  EXPECT_TRUE(second.resumed_complete);
  EXPECT_EQ(second.winner.schedule, first.winner.schedule);
  EXPECT_EQ(runner_.num_compiled, compiled);
}

TEST_F(SearchTest, ALargerBudgetGoesOnFromTheSmaller) {
  request_.budget = *budget_named("quick");
  run();
  resumes_ = true;
  request_.budget = *budget_named("normal");
  const SearchOutcome outcome = run();
  EXPECT_FALSE(outcome.resumed_complete);
  EXPECT_GT(outcome.reused, 0);
  for (const auto& [schedule, times] : runner_.compiles_of) EXPECT_EQ(times, 1) << schedule;
}

TEST_F(SearchTest, AnInterruptedSearchResumesAndMeasuresNothingTwice) {
  int left = 9;
  const auto keep = request_.keep_record;
  request_.keep_record = [&](const TuningRecord& record) -> Status {
    if (left-- == 0) return io_error("killed here");
    return keep(record);
  };
  EXPECT_FALSE(search(runner_, request_).ok());
  const size_t kept = table_.records().size();
  EXPECT_EQ(kept, 9u);
  const auto first = runner_.compiles_of;

  request_.keep_record = keep;
  resumes_ = true;
  const SearchOutcome outcome = run();
  EXPECT_EQ(outcome.reused, 9);
  EXPECT_TRUE(outcome.winner.chosen);
  std::set<std::string> recorded;
  for (size_t i = 0; i < kept; ++i) recorded.insert(to_string(table_.records()[i].schedule));
  for (const std::string& schedule : recorded) {
    EXPECT_EQ(runner_.compiles_of[schedule], first.at(schedule));
  }
}

TEST_F(SearchTest, RecordsOfAnotherMachineAreNotUsed) {
  run();
  runner_.machine_.driver = "CUDA 13.1";
  resumes_ = true;
  const SearchOutcome outcome = run();
  EXPECT_FALSE(outcome.resumed_complete);
  EXPECT_EQ(outcome.reused, 0);
}

TEST_F(SearchTest, TheBudgetEndsASearchWithAWinner) {
  runner_.seconds_per_call = 2;
  request_.budget = *budget_named("quick");
  const SearchOutcome outcome = run();
  EXPECT_GT(count(outcome, Fate::kOutOfTime), 0);
  EXPECT_TRUE(outcome.winner.chosen);
  EXPECT_FALSE(outcome.winner.complete);
}

TEST_F(SearchTest, ASearchThatWasCutShortIsNoAnswerAndGoesOnNextTime) {
  runner_.seconds_per_call = 2;
  request_.budget = *budget_named("quick");
  const int left = count(run(), Fate::kOutOfTime);
  ASSERT_GT(left, 0);
  resumes_ = true;
  runner_.clock_s = 0;
  const SearchOutcome second = run();
  EXPECT_FALSE(second.resumed_complete);
  EXPECT_GT(second.reused, 0);
  EXPECT_LT(count(second, Fate::kOutOfTime), left);
  runner_.seconds_per_call = 0;
  const SearchOutcome third = run();
  EXPECT_EQ(count(third, Fate::kOutOfTime), 0);
  EXPECT_TRUE(third.winner.complete);
  EXPECT_TRUE(run().resumed_complete);
}

// A step is a compile, a check or a call that times. What an answer needs takes four of them: the
// default compiled, checked and timed, and the winner's full check.
TEST_F(SearchTest, NothingIsBegunAfterTheDeadlineButWhatAnAnswerNeeds) {
  request_.budget = *budget_named("quick");
  for (const Evidence evidence : {Evidence::kMeasured, Evidence::kPredicted}) {
    runner_.evidence_ = evidence;
    for (const double step_s : {0.5, 1.0, 3.0, 7.0, 15.0, 40.0}) {
      table_ = TuningTable();
      runner_.clock_s = 0;
      runner_.seconds_per_call = step_s;
      const SearchOutcome outcome = run();
      EXPECT_LE(outcome.seconds, request_.budget.seconds + 4 * step_s) << step_s;
      if (step_s <= 3) {
        EXPECT_LE(outcome.seconds, request_.budget.seconds + 2 * step_s) << step_s;
      }
      EXPECT_TRUE(outcome.winner.chosen);
      EXPECT_EQ(outcome.winner.complete, count(outcome, Fate::kOutOfTime) == 0) << step_s;
    }
  }
}

// However short the budget is for what a step takes.
TEST_F(SearchTest, EverySearchThatIsCutShortGetsFurther) {
  request_.budget = *budget_named("quick");
  resumes_ = true;
  for (const Evidence evidence : {Evidence::kMeasured, Evidence::kPredicted}) {
    runner_.evidence_ = evidence;
    table_ = TuningTable();
    for (const double step_s : {2, 4, 8, 10}) {
      runner_.seconds_per_call = step_s;
      for (int i = 0; i < 3; ++i) {
        const size_t before = table_.records().size();
        run();
        EXPECT_GT(table_.records().size(), before + 1) << step_s;  // beside the chosen one
      }
    }
  }
}

// The others of its batch would take 15 s each.
TEST_F(SearchTest, ACompileIsNotBegunWhereTheTimeIsUp) {
  request_.budget = *budget_named("quick");
  runner_.on_compile = [&](const CandidateSpec&) {
    runner_.clock_s += 15;
    return CompileReport();
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(runner_.num_compiled, 1);
  EXPECT_EQ(outcome.compiled, 1);
  EXPECT_LE(outcome.seconds, request_.budget.seconds);
  EXPECT_FALSE(outcome.winner.complete);
}

TEST_F(SearchTest, TimeThatWasSpentBeforeCounts) {
  request_.budget = *budget_named("quick");
  request_.spent_s = 20;
  std::vector<double> elapsed;
  request_.progress = [&](const SearchProgress& now) { elapsed.push_back(now.elapsed_s); };
  const SearchOutcome outcome = run();
  EXPECT_EQ(runner_.num_compiled, 1);  // the default
  EXPECT_FALSE(outcome.winner.complete);
  EXPECT_EQ(elapsed.at(0), 20);
  EXPECT_EQ(outcome.seconds, 20);
}

TEST_F(SearchTest, AFinalThatWasCutShortIsNoAnswer) {
  request_.budget = *budget_named("quick");
  request_.progress = [&](const SearchProgress& now) {
    if (now.stage == Stage::kFinal) runner_.clock_s = 21;
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(count(outcome, Fate::kOutOfTime), 0);
  EXPECT_GT(outcome.timed, 5);
  EXPECT_TRUE(outcome.winner.chosen);
  EXPECT_GT(outcome.winner.ms, 0);
  EXPECT_FALSE(outcome.winner.complete);
}

// After the time: the default, and not one challenger after the other.
TEST_F(SearchTest, AWinnerThatFailsLateMakesRoomForTheDefault) {
  request_.budget = *budget_named("quick");
  const Schedule by_default = default_schedule(request_.problem, request_.target);
  runner_.on_check = [&](const CandidateSpec& candidate, CheckDepth depth) {
    CheckReport report;
    if (depth == CheckDepth::kQuick) return report;
    runner_.clock_s += 30;
    if (candidate.schedule != by_default) report.verdict = Verdict::kWrong;
    return report;
  };
  const SearchOutcome outcome = run();
  EXPECT_EQ(runner_.num_full_checks, 2);
  EXPECT_EQ(outcome.winner.schedule, by_default);
  EXPECT_FALSE(outcome.winner.complete);
}

TEST_F(SearchTest, CancellingEndsABatchOfCompiles) {
  request_.cancelled = [&] { return runner_.num_compiled == 2; };
  EXPECT_TRUE(run().cancelled);
  EXPECT_EQ(runner_.num_compiled, 2);
}

TEST_F(SearchTest, CancellingKeepsWhatWasMeasured) {
  request_.cancelled = [&] { return table_.records().size() >= 3; };
  const SearchOutcome outcome = run();
  EXPECT_TRUE(outcome.cancelled);
  EXPECT_FALSE(outcome.winner.chosen);
  EXPECT_FALSE(table_.records().empty());
  EXPECT_EQ(count(outcome, Fate::kWon), 0);
}

TEST_F(SearchTest, AGivenCandidateIsTriedBesideTheOthersAndNeverChosen) {
  CandidateSpec given;
  given.id = "by hand";
  given.schedule = default_schedule(request_.problem, request_.target);
  given.source = KernelSource{"by_hand", "// edited\n", {}};
  request_.extra.push_back(given);
  runner_.on_time = nullptr;
  std::set<std::string> seen;
  runner_.on_compile = [&](const CandidateSpec& candidate) {
    seen.insert(candidate.id);
    return CompileReport();
  };
  const SearchOutcome outcome = run();
  EXPECT_TRUE(seen.contains("by hand"));
  const std::string hash = source_hash(given.source->source);
  int recorded = 0;
  for (const TuningRecord& record : table_.records()) {
    if (record.source_hash != hash) continue;
    ++recorded;
    EXPECT_FALSE(record.chosen);
  }
  EXPECT_GT(recorded, 0);
}

TEST_F(SearchTest, WithoutATimeNothingIsChosen) {
  runner_.on_check = [](const CandidateSpec&, CheckDepth) {
    CheckReport report;
    report.verdict = Verdict::kWrong;
    report.reason = "everything is";
    return report;
  };
  const Result<SearchOutcome> outcome = search(runner_, request_);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), StatusCode::kDeviceError);
  EXPECT_NE(outcome.status().message().find("everything is"), std::string::npos);
}

TEST_F(SearchTest, PredictionsAreDeterministicAndSaySo) {
  runner_.evidence_ = Evidence::kPredicted;
  const SearchOutcome first = run();
  EXPECT_EQ(first.winner.evidence, Evidence::kPredicted);
  table_ = TuningTable();
  EXPECT_EQ(run().winner.schedule, first.winner.schedule);
}

TEST_F(SearchTest, ProgressNamesEveryStageInOrder) {
  std::vector<Stage> stages;
  request_.progress = [&](const SearchProgress& progress) {
    if (stages.empty() || stages.back() != progress.stage) stages.push_back(progress.stage);
    EXPECT_LE(progress.done, std::max(progress.total, progress.done));
  };
  run();
  const std::vector<Stage> wanted = {Stage::kEnumerate, Stage::kBlocks, Stage::kThreads,
                                     Stage::kHalving,   Stage::kFinal,  Stage::kVerify,
                                     Stage::kDone};
  EXPECT_EQ(stages, wanted);
}

TEST(Budgets, UnknownNamesListTheKnownOnes) {
  const Result<Budget> none = budget_named("huge");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(),
            "budget = \"huge\": allowed are \"quick\", \"normal\" and \"full\"");
}

}  // namespace
}  // namespace lssar
