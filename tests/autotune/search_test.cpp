// The search over the real space with made-up times and verdicts: what it keeps, drops and chooses.
#include <map>
#include <set>

#include "tests/autotune/search_fixture.h"

namespace lssar {
namespace {

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

// One bucket has many sizes, and sequences of many lengths.
TEST_F(SearchTest, TimesOfOtherSizesOfTheBucketAreNotUsed) {
  request_.budget = *budget_named("quick");
  run();
  resumes_ = true;
  request_.budget = *budget_named("normal");
  request_.sizes.seq_k = 5000;
  EXPECT_EQ(run().reused, 0);
}

TEST_F(SearchTest, TimesOfSequencesOfOtherLengthsAreNotUsed) {
  request_.problem.varlen = true;
  request_.lengths = {{4096, 17}, {4096, 17}};
  request_.sizes = sizes_of_call(request_.lengths, 16, 16);
  request_.budget = *budget_named("quick");
  run();
  resumes_ = true;
  request_.budget = *budget_named("normal");
  request_.lengths = {{4096, 4096}, {4096, 4096}};
  EXPECT_EQ(run().reused, 0);
  request_.lengths = {{4096, 17}, {4096, 17}};
  request_.budget = *budget_named("full");
  EXPECT_GT(run().reused, 0);
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
