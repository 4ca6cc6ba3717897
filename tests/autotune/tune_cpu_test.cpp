// Tuning on the cpu device, for real: candidates are compiled, checked and timed in worker
// processes; a crash takes a worker and not the caller; plans find the winner. No time is compared
// with a number.
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/measure/candidate_timer.h"
#include "autotune/model/schedule_chooser.h"
#include "autotune/search/tuner.h"
#include "compile/compiler.h"
#include "device/cpu/cpu_features.h"
#include "runtime/multiply_adds.h"
#include "tests/autotune/candidate_fixture.h"
#include "tests/cache/temporary_folder.h"

namespace lssar::test {
namespace {

constexpr int64_t kLength = 96;

class CpuTune : public testing::Test {
 protected:
  void SetUp() override {
    if (cpu_features().level.empty() || !open_compiler(CompilerChoice::kLlvm).ok())
      GTEST_SKIP() << "no AVX2, or no LLVM compiler";
    setenv("TMPDIR", folder_.path().c_str(), 1);  // of the lock
  }
  ~CpuTune() override { unsetenv("TMPDIR"); }

  static RunnerTask task_of(Pass pass) {
    RunnerTask task = small_task(pass, cpu_features().level);
    task.problem.dtype = DType::kFp32;
    task.problem.head_dim = task.problem.head_dim_v = 16;
    task.sizes.seq_q = task.sizes.seq_k = kLength;
    task.device = DeviceChoice::kCpu;
    return task;
  }
  static CandidateSpec candidate_of(const RunnerTask& task, const nlohmann::json& fields = {}) {
    CandidateSpec candidate;
    candidate.id = "default";
    candidate.schedule = default_schedule(task.problem, target_of(task));
    if (!fields.is_null())
      candidate.schedule = *schedule_from_json({{"cpu", fields}}, candidate.schedule);
    return candidate;
  }

  // What plans take if a search has written `table`.
  static ScheduleChoice choice_by(const std::string& table, const Problem& problem,
                                  const Sizes& sizes) {
    EngineOptions on_cpu;
    on_cpu.device = DeviceChoice::kCpu;
    const auto engine = Engine::open(on_cpu);
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    if (!engine.ok()) return {};
    ChooserOptions chooser;
    chooser.user_table = load_user_table(table, "");
    const auto choice = ScheduleChooser(**engine, chooser).choose(problem, sizes);
    EXPECT_TRUE(choice.ok()) << choice.status().to_string();
    return choice.ok() ? *choice : ScheduleChoice();
  }

  const TemporaryFolder folder_;
};

TEST_F(CpuTune, ASearchRulesOutCrashesAndPlansFindItsWinner) {
  const RunnerTask task = task_of(Pass::kForward);
  Result<std::unique_ptr<CandidateRunner>> runner = open_worker_runner(task, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().to_string();
  const TuneProblem problem = {task.problem, task.sizes, task.determinism};
  TuneOptions options;
  options.table_path = folder_ / "tuning.jsonl";
  options.budget = {"quick", 0, 1, 0, 0, 2, 2, 2};  // one of the space beside the default
  options.parallel_compiles = 2;
  const std::string place = "  const RowPlace place = query_place<kBlockRows>(params, block);\n";
  CandidateSpec crashes =
      edited(task, candidate_of(task), {{place, "  *(volatile int*)16 = 1;\n" + place}});
  crashes.id = "crashes";
  CandidateSpec wrong = edited(task, candidate_of(task), {{"row + 1 + shift", "row + 2 + shift"}});
  wrong.id = "off by one";
  options.extra = {crashes, wrong};
  const Result<SearchOutcome> outcome = tune_with(**runner, problem, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  const TuningRecord& winner = outcome->winner;
  EXPECT_TRUE(winner.chosen && winner.complete);
  EXPECT_EQ(winner.evidence, Evidence::kMeasured);
  EXPECT_EQ(winner.machine.device, cpu_features().name);
  EXPECT_EQ(winner.machine.target, cpu_features().level);
  EXPECT_GE(winner.machine.num_sms, 1);
  EXPECT_GT(winner.ms, 0);
  EXPECT_EQ(winner.terms.count("evaluation"), 1u);
  EXPECT_GE(outcome->timed, 2);

  const Result<TuningTable> table = TuningTable::load(options.table_path);
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  std::map<std::string, Verdict> verdicts;
  for (const TuningRecord& record : table->records()) verdicts[record.source_hash] = record.verdict;
  EXPECT_EQ(verdicts[source_hash(crashes.source->source)], Verdict::kCrashed);
  EXPECT_EQ(verdicts[source_hash(wrong.source->source)], Verdict::kWrong);

  options.extra.clear();
  EXPECT_TRUE(tune_with(**runner, problem, options)->resumed_complete);
  const ScheduleChoice choice = choice_by(options.table_path, task.problem, task.sizes);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kExact) << choice.reason;
  EXPECT_EQ(choice.schedule, winner.schedule);
}

TEST_F(CpuTune, AWindowIsTimedForItself) {
  RunnerTask task = task_of(Pass::kForward);
  task.problem.window_left = 20;
  Result<std::unique_ptr<CandidateRunner>> runner = open_worker_runner(task, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().to_string();
  TuneOptions options;
  options.table_path = folder_ / "tuning.jsonl";
  options.budget = {"quick", 0, 1, 0, 0, 2, 2, 2};
  options.parallel_compiles = 2;
  const auto outcome = tune_with(**runner, {task.problem, task.sizes, task.determinism}, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(outcome->winner.evidence, Evidence::kMeasured);
  EXPECT_EQ(outcome->winner.bucket.window.window_left, 20);
  const auto origin = [&](int64_t window_left) {
    Problem problem = task.problem;
    problem.window_left = window_left;
    return choice_by(options.table_path, problem, task.sizes).origin;
  };
  EXPECT_EQ(origin(20), ScheduleOrigin::kExact);
  EXPECT_EQ(origin(21), ScheduleOrigin::kDefault);
  EXPECT_EQ(origin(-1), ScheduleOrigin::kDefault);
}

// Each feature has records of its own: plans find what a search of the very problem chose.
TEST_F(CpuTune, SequencesRotaryPositionsAndInvariantAreTimedForThemselves) {
  for (const char* feature : {"varlen", "rotary", "invariant"}) {
    const std::string name = feature;
    RunnerTask task = task_of(Pass::kForward);
    task.problem.varlen = name == "varlen";
    task.problem.rotary_dim = name == "rotary" ? 8 : 0;
    task.problem.invariant = name == "invariant";
    TuneProblem problem = {task.problem, task.sizes, task.determinism};
    if (task.problem.varlen) {
      problem.lengths = {{5, 0, 64, 17}, {7, 3, 96, 17}};
      problem.sizes = sizes_of_call(problem.lengths, task.sizes.heads, task.sizes.kv_heads);
      task.sizes = problem.sizes;
      task.lengths = problem.lengths;
    }
    Result<std::unique_ptr<CandidateRunner>> runner = open_worker_runner(task, 2);
    ASSERT_TRUE(runner.ok()) << runner.status().to_string();
    TuneOptions options;
    options.table_path = folder_ / name + ".jsonl";
    options.budget = {"quick", 0, 1, 0, 0, 2, 2, 2};
    options.parallel_compiles = 2;
    const auto outcome = tune_with(**runner, problem, options);
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    EXPECT_EQ(outcome->winner.evidence, Evidence::kMeasured);
    EXPECT_GT(outcome->winner.ms, 0);
    EXPECT_EQ(outcome->winner.lengths, problem.lengths);
    EXPECT_GE(outcome->timed, 2) << name;
    const ScheduleChoice choice = choice_by(options.table_path, task.problem, task.sizes);
    EXPECT_EQ(choice.origin, ScheduleOrigin::kExact) << choice.reason;
    EXPECT_EQ(choice.schedule, outcome->winner.schedule);
    Problem plain = task.problem;
    plain.varlen = plain.invariant = false;
    plain.rotary_dim = 0;
    EXPECT_EQ(choice_by(options.table_path, plain, task.sizes).origin, ScheduleOrigin::kDefault);
  }
}

TEST_F(CpuTune, SequencesAreCheckedAndTimedInEveryPass) {
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    RunnerTask task = task_of(pass);
    task.problem.varlen = task.problem.invariant = true;
    task.problem.rotary_dim = 16;
    const auto host = open_candidate_host(task);
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    const CandidateSpec candidate = candidate_of(task);
    const Result<CheckReport> checked = (*host)->check(candidate, CheckDepth::kQuick);
    ASSERT_TRUE(checked.ok()) << checked.status().to_string();
    EXPECT_EQ(checked->verdict, Verdict::kOk) << checked->reason;
    EXPECT_GT(checked->error, 0);
    const auto timed = (*host)->time({candidate}, {.rounds = 3});
    ASSERT_TRUE(timed.ok()) << timed.status().to_string();
    for (const double ms : (*timed)[0].samples_ms) EXPECT_GT(ms, 0);
  }
}

TEST_F(CpuTune, NoSequencesWithWorkAreRefused) {
  const RunnerTask task = task_of(Pass::kForward);
  TuneProblem problem = {task.problem, {2, 2, 1, 5, 3}, task.determinism, {{5, 0}, {0, 3}}};
  problem.problem.varlen = true;
  const auto outcome = tune(problem, {});
  EXPECT_EQ(outcome.status().message(),
            "lengths = 5:0,0:3: tuning needs work to time: a sequence with at least 1 query and 1 "
            "key");
  problem.lengths = {{5}, {3}};
  EXPECT_EQ(tune(problem, {}).status().code(), StatusCode::kInvalidArgument);
  problem.lengths = {};
  problem.sizes.batch = 0;
  EXPECT_EQ(tune(problem, {}).status().message(),
            "batch = 0: tuning needs work to time: at least 1");
  problem.sizes.batch = 1 << 30;
  EXPECT_EQ(tune(problem, {}).status().message(),
            "batch = 1073741824: allowed with varlen are 1 to 1048576 sequences");
}

// The window is wider than other cases have keys.
TEST_F(CpuTune, TheCheckSeesKeysThatAWindowHides) {
  RunnerTask task = task_of(Pass::kForward);
  task.problem.window_left = 600;
  const auto host = open_candidate_host(task);
  ASSERT_TRUE(host.ok()) << host.status().to_string();
  const CandidateSpec right = candidate_of(task);
  const Result<CheckReport> passed = (*host)->check(right, CheckDepth::kQuick);
  ASSERT_TRUE(passed.ok()) << passed.status().to_string();
  EXPECT_EQ(passed->verdict, Verdict::kOk) << passed->reason;
  const CandidateSpec wrong =
      edited(task, right, {{"position - Config::kWindowLeft", "position - 599"}});
  const Result<CheckReport> failed = (*host)->check(wrong, CheckDepth::kQuick);
  ASSERT_TRUE(failed.ok()) << failed.status().to_string();
  EXPECT_EQ(failed->verdict, Verdict::kWrong) << failed->reason;
}

TEST_F(CpuTune, TheCheckSeesKeysWhoseActivationsAreComputedAgain) {
  const RunnerTask task = task_of(Pass::kForward);
  const auto host = open_candidate_host(task);
  ASSERT_TRUE(host.ok()) << host.status().to_string();
  const CandidateSpec right = candidate_of(task, {{"block_keys", 128}, {"kept_keys", 512}});
  const Result<CheckReport> passed = (*host)->check(right, CheckDepth::kQuick);
  ASSERT_TRUE(passed.ok()) << passed.status().to_string();
  EXPECT_EQ(passed->verdict, Verdict::kOk) << passed->reason;
  const CandidateSpec wrong =
      edited(task, right, {{"if (key >= Config::kKeptKeys)", "if (key > Config::kKeptKeys)"}});
  const Result<CheckReport> failed = (*host)->check(wrong, CheckDepth::kQuick);
  ASSERT_TRUE(failed.ok()) << failed.status().to_string();
  EXPECT_EQ(failed->verdict, Verdict::kWrong) << failed->reason;
}

TEST_F(CpuTune, ABackwardIsCheckedAndTimed) {
  for (const Pass pass : {Pass::kForwardTrain, Pass::kBackward}) {
    const RunnerTask task = task_of(pass);
    const auto host = open_candidate_host(task);
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    const CandidateSpec candidate = candidate_of(task);
    const Result<CompileReport> compiled = (*host)->compile(candidate);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    EXPECT_EQ(compiled->verdict, Verdict::kOk) << compiled->reason;
    const Result<CheckReport> checked = (*host)->check(candidate, CheckDepth::kQuick);
    ASSERT_TRUE(checked.ok()) << checked.status().to_string();
    EXPECT_EQ(checked->verdict, Verdict::kOk) << checked->reason;
    const auto timed = (*host)->time({candidate}, {.rounds = 3});
    ASSERT_TRUE(timed.ok()) << timed.status().to_string();
    ASSERT_EQ((*timed)[0].samples_ms.size(), 3u);
    for (const double ms : (*timed)[0].samples_ms) EXPECT_GT(ms, 0);
  }
}

TEST(CpuTimedSizes, AreAPartOfManyHeadsAndAllOfFew) {
  Problem problem;
  problem.causal = true;
  const Sizes many = {4, 16, 4, 4096, 4096};
  const Sizes part = timed_cpu_sizes(problem, many, 2);
  EXPECT_EQ(part.batch, 1);
  EXPECT_EQ(part.kv_heads, 2);  // one for each thread
  EXPECT_EQ(part.heads, 8);     // heads that share keys stay together
  EXPECT_EQ(part.seq_k, 4096);
  EXPECT_EQ(timed_cpu_sizes(problem, {1, 1, 1, 4096, 4096}, 2), (Sizes{1, 1, 1, 4096, 4096}));
  // Short heads: enough of them that a launch takes a while.
  const Sizes short_heads = {64, 16, 16, 128, 128};
  const Sizes some = timed_cpu_sizes(problem, short_heads, 2);
  EXPECT_GT(some.heads, 16);
  EXPECT_LT(multiply_adds(problem, some), multiply_adds(problem, short_heads));
  EXPECT_EQ(timed_cpu_sizes(problem, {1, 4, 4, 64, 64}, 2), (Sizes{1, 4, 4, 64, 64}));
}

// Heads are left out first, then sequences. Long and short sequences remain.
TEST(CpuTimedSizes, OfSequencesAreFewerHeadsThenFewerSequences) {
  Problem problem;
  problem.causal = problem.varlen = true;
  SequenceLengths many;
  for (int64_t b = 1; b <= 64; ++b) many.add(128 * b, 128 * b);
  Sizes sizes = sizes_of_call(many, 16, 4);
  const SequenceLengths some = timed_cpu_lengths(problem, many, 2, &sizes);
  EXPECT_EQ(sizes, sizes_of_call(some, 4, 1));
  EXPECT_LT(some.count(), 64);
  EXPECT_GE(some.count(), 2);
  EXPECT_EQ(sizes.seq_k, 128 * 64);
  EXPECT_LT(some.k.front(), 128 * 33);
  const SequenceLengths few = {{5, 0, 64}, {5, 0, 64}};
  sizes = sizes_of_call(few, 4, 4);
  EXPECT_EQ(timed_cpu_lengths(problem, few, 2, &sizes), few);
  EXPECT_EQ(sizes, (Sizes{3, 4, 4, 64, 64}));
}

}  // namespace
}  // namespace lssar::test
