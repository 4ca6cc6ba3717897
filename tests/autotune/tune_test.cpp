// The tuner with its table and lock, among processes: killed at any moment, several at once. Times
// and verdicts are made up.
#include "autotune/search/tuner.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "autotune/model/schedule_choice.h"
#include "autotune/search/gpu_lock.h"
#include "tests/autotune/fake_runner.h"

namespace lssar {
namespace {

double hashed_ms(const Schedule& schedule) {
  return 1 + 0.01 * double(std::hash<std::string>()(to_string(schedule)) % 101);
}

class TuneProcesses : public testing::Test {
 protected:
  TuneProcesses() {
    char pattern[] = "/tmp/lssar_tune_XXXXXX";
    directory_ = mkdtemp(pattern);
    setenv("TMPDIR", directory_.c_str(), 1);  // of the lock
    problem_.problem.causal = true;
    problem_.sizes = {1, 8, 8, 2048, 2048};
    options_.table_path = directory_ + "/tuning.jsonl";
    options_.budget = *budget_named("normal");
    options_.parallel_compiles = 1;
    runner_.info_.target = *target_from_name("sm_80");
    runner_.machine_.target = "sm_80";
    runner_.ms_of = hashed_ms;
  }
  ~TuneProcesses() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(directory_);
  }

  TuningTable load() {
    Result<TuningTable> table = TuningTable::load(options_.table_path);
    EXPECT_TRUE(table.ok()) << table.status().to_string();
    return table.ok() ? *table : TuningTable();
  }

  std::string directory_;
  TuneProblem problem_;
  TuneOptions options_;
  FakeRunner runner_;
};

TEST_F(TuneProcesses, WaitingForTheGpuIsNotInTheBudget) {
  std::optional<GpuLock> others;
  {
    Result<GpuLock> taken = GpuLock::take(runner_.device_info().id, 0);
    ASSERT_TRUE(taken.ok());
    others = std::move(*taken);
  }
  double clock_s = 0;
  options_.now_s = [&] { return clock_s; };
  options_.cancelled = [&] {  // asked while it waits, too
    if (others) clock_s += 1000;
    others.reset();
    return false;
  };
  const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(clock_s, 1000);
  EXPECT_EQ(outcome->seconds, 0);
  EXPECT_TRUE(outcome->winner.complete);
}

TEST_F(TuneProcesses, KilledAtAnyMomentALaterRunGoesOn) {
  constexpr int kKills = 50;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> delay_us(0, 60000);
  size_t known = 0;
  int ended_by_themselves = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // Slow enough that a run takes several kills.
      runner_.on_check = [](const CandidateSpec&, CheckDepth) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return CheckReport();
      };
      _exit(tune_with(runner_, problem_, options_).ok() ? 0 : 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us(random)));
    // Not before it has something to lose: enumerating takes its own time.
    if (i % 2 == 0) {
      while (load().records().size() == known && waitpid(child, nullptr, WNOHANG) == 0) usleep(500);
    }
    kill(child, SIGKILL);
    int state = 0;
    if (waitpid(child, &state, 0) == child && WIFEXITED(state)) ++ended_by_themselves;
    const TuningTable table = load();
    ASSERT_GE(table.records().size(), known) << "records were lost by kill " << i;
    ASSERT_LE(table.defects().malformed_lines, i + 1) << table.defects().first;
    known = table.records().size();
  }
  EXPECT_GT(known, 10u);

  std::set<std::string> recorded;
  const TuningTable left = load();
  for (const TuningRecord& record : left.records()) recorded.insert(to_string(record.schedule));
  const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_TRUE(outcome->winner.chosen);
  for (const auto& [schedule, times] : runner_.compiles_of) {
    EXPECT_FALSE(recorded.contains(schedule)) << "measured twice: " << schedule;
  }
}

TEST_F(TuneProcesses, FourAtOnceSearchOnce) {
  constexpr int kProcesses = 4;
  int results[2];
  ASSERT_EQ(pipe(results), 0);
  struct Line {
    int compiled;
    double winner_ms;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
      if (!outcome.ok()) _exit(1);
      const Line line = {runner_.num_compiled, outcome->winner.ms};
      _exit(write(results[1], &line, sizeof(line)) == sizeof(line) ? 0 : 1);
    }
    children.push_back(child);
  }
  int searched = 0;
  std::set<double> winners;
  for (int i = 0; i < kProcesses; ++i) {
    Line line = {};
    ASSERT_EQ(read(results[0], &line, sizeof(line)), ssize_t(sizeof(line)));
    searched += line.compiled > 0;
    winners.insert(line.winner_ms);
  }
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(state, 0);
  }
  EXPECT_EQ(searched, 1);
  EXPECT_EQ(winners.size(), 1u);
  int chosen = 0;
  const TuningTable table = load();
  for (const TuningRecord& record : table.records()) chosen += record.chosen;
  EXPECT_EQ(chosen, 1);
  close(results[0]);
  close(results[1]);
}

// The clock of one of two machines that share a table may be ahead, and two searches may end in one
// second.
TEST_F(TuneProcesses, ALaterSearchReplacesAnEarlierOneWhateverTheClocksSay) {
  ASSERT_TRUE(tune_with(runner_, problem_, options_).ok());
  const TuningTable first = load();
  TuningRecord ahead;
  for (const TuningRecord& record : first.records()) {
    if (record.chosen) ahead = record;
  }
  ahead.time = "2999-12-31T23:59:59Z";
  ASSERT_TRUE(ahead.chosen);
  ASSERT_TRUE(append_records(options_.table_path, {ahead}).ok());
  options_.search_again = true;
  runner_.ms_of = [&](const Schedule& schedule) {  // another one is best now
    return schedule == ahead.schedule ? 9 : hashed_ms(schedule);
  };
  const Result<SearchOutcome> again = tune_with(runner_, problem_, options_);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  ASSERT_NE(again->winner.schedule, ahead.schedule);
  EXPECT_EQ(again->winner.time, "3000-01-01T00:00:00Z");
  const TuningTable table = load();
  EXPECT_EQ(choose_schedule(problem_.problem, problem_.sizes, problem_.determinism,
                            runner_.device_info().target, runner_.machine(), {&table})
                .schedule,
            again->winner.schedule);
}

// No time follows the last one there is: the later line counts, also in an exported table.
TEST_F(TuneProcesses, ALaterSearchReplacesAWinnerOfTheLastSecondThereIs) {
  ASSERT_TRUE(tune_with(runner_, problem_, options_).ok());
  const TuningTable first = load();
  TuningRecord ahead;
  for (const TuningRecord& record : first.records()) {
    if (record.chosen) ahead = record;
  }
  ahead.time = "9999-12-31T23:59:59Z";
  ASSERT_TRUE(append_records(options_.table_path, {ahead}).ok());
  options_.search_again = true;
  runner_.ms_of = [&](const Schedule& schedule) {  // another one is best now
    return schedule == ahead.schedule ? 9 : hashed_ms(schedule);
  };
  const Result<SearchOutcome> again = tune_with(runner_, problem_, options_);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  ASSERT_NE(again->winner.schedule, ahead.schedule);
  const TuningTable table = load(), exported = TuningTable::parse(table.canonical_text());
  for (const TuningTable* one : {&table, &exported}) {
    EXPECT_EQ(choose_schedule(problem_.problem, problem_.sizes, problem_.determinism,
                              runner_.device_info().target, runner_.machine(), {one})
                  .schedule,
              again->winner.schedule);
  }
}

// Said before the first candidate, not after minutes of search.
TEST_F(TuneProcesses, ATableThatCannotBeWrittenIsSaidBeforeTheSearch) {
  int asked = 0;
  runner_.ms_of = [&](const Schedule& schedule) {
    ++asked;
    return hashed_ms(schedule);
  };
  const std::string foreign = directory_ + "/foreign", read_only = directory_ + "/read_only";
  std::ofstream(foreign) << "a letter to somebody\n";
  ASSERT_TRUE(append_records(read_only, {}).ok());
  std::filesystem::permissions(read_only, std::filesystem::perms::owner_read);
  const std::pair<std::string, const char*> cases[] = {
      {foreign, "does not begin as a tuning table"},
      {read_only, "is read-only (mode 0400)"},
      {foreign + "/table", "Not a directory"}};
  for (const auto& [path, why] : cases) {
    options_.table_path = path;
    const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
    ASSERT_FALSE(outcome.ok()) << path;
    EXPECT_EQ(outcome.status().code(), StatusCode::kIoError) << path;
    EXPECT_NE(outcome.status().message().find(why), std::string::npos)
        << outcome.status().message();
  }
  EXPECT_EQ(asked, 0);
}

TEST_F(TuneProcesses, ATableThatCannotBeWrittenEndsTheSearch) {
  options_.table_path = directory_ + "/folder";
  std::filesystem::create_directory(options_.table_path);
  const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), StatusCode::kIoError);
  EXPECT_NE(outcome.status().message().find("/folder"), std::string::npos);
}

TEST_F(TuneProcesses, SizesMustGiveWork) {
  problem_.sizes.seq_q = 0;
  const Result<SearchOutcome> outcome = tune_with(runner_, problem_, options_);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().message(), "seq_q = 0: tuning needs work to time: at least 1");
}

TEST(TypicalSizes, FillInWhatIsOpen) {
  Problem problem;
  problem.causal = true;
  Sizes sizes = typical_sizes(problem);
  EXPECT_EQ(sizes.seq_q, 4096);
  EXPECT_EQ(sizes.batch, 4);
  EXPECT_EQ(sizes.heads, 16);
  problem.seq_q = problem.seq_k = 32768;
  sizes = typical_sizes(problem);
  EXPECT_EQ(sizes.seq_q, 32768);
  EXPECT_EQ(sizes.batch, 1);
  problem.seq_q = 1;  // of a cache
  problem.seq_k = 0;
  EXPECT_EQ(typical_sizes(problem), (Sizes{4, 16, 16, 1, 4096}));
  problem.seq_q = problem.seq_k = 32768;
  problem.heads = 8;
  problem.kv_heads = 2;
  sizes = typical_sizes(problem);
  EXPECT_EQ(sizes.heads, 8);
  EXPECT_EQ(sizes.kv_heads, 2);
}

// Kernels for few queries are candidates only where the problem has few.
TEST(SearchedProblem, SaysThatSequencesHaveFewQueries) {
  TuneProblem task;
  task.problem.varlen = true;
  const auto seq_q = [&](const SequenceLengths& lengths) {
    task.lengths = lengths;
    task.sizes = sizes_of_call(lengths, 1, 1);
    return searched_problem(task).problem.seq_q;
  };
  EXPECT_EQ(seq_q({{1, 16, 0}, {700, 90, 3}}), 16);
  EXPECT_EQ(seq_q({{1, 17, 0}, {700, 90, 3}}), 0);
  task.problem.seq_q = 8;  // what the caller says stays
  EXPECT_EQ(seq_q({{1, 3}, {700, 90}}), 8);
  task.lengths = {};
  task.sizes = {2, 1, 1, 4, 700};
  task.problem.seq_q = 0;
  const TuneProblem even = searched_problem(task);
  EXPECT_EQ(even.problem.seq_q, 4);
  EXPECT_EQ(even.lengths, (SequenceLengths{{2, 4}, {350, 700}}));
  task.problem.varlen = false;
  EXPECT_EQ(searched_problem(task).problem, task.problem);
  EXPECT_TRUE(searched_problem(task).lengths.empty());
}

}  // namespace
}  // namespace lssar
