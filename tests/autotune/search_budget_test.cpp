// The search's budget: when it ends, what an end leaves, and how the next search goes on.
#include "tests/autotune/search_fixture.h"

namespace lssar {
namespace {

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

}  // namespace
}  // namespace lssar
