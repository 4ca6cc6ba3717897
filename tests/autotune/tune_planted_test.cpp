// A whole search on a virtual device, in worker processes, with wrong candidates among the right
// ones: none wins, each is recorded with its reason.
#include <cstdlib>
#include <filesystem>

#include "autotune/search/tuner.h"
#include "tests/autotune/candidate_fixture.h"

namespace lssar {
namespace {

using namespace test;

TEST(TunePlanted, WrongCandidatesNeverWinAndAreRecorded) {
  char pattern[] = "/tmp/lssar_planted_XXXXXX";
  const std::string directory = mkdtemp(pattern);
  setenv("TMPDIR", directory.c_str(), 1);

  RunnerTask task = small_task();
  task.run_timeout_s = 5;
  Result<std::unique_ptr<CandidateRunner>> runner = open_worker_runner(task, 2);
  ASSERT_TRUE(runner.ok()) << runner.status().to_string();
  TuneProblem problem = {task.problem, task.sizes, task.determinism};
  TuneOptions options;
  options.table_path = directory + "/tuning.jsonl";
  options.budget = {"quick", 0, 2, 0, 0, 2, 1, 1};  // two of the space beside the default
  options.parallel_compiles = 2;
  options.extra = {off_by_one_at_the_causal_edge(task),
                   writes_a_row_too_many(task),
                   never_writes_the_last_row(task),
                   follows_the_clock(task),
                   never_ends(task),
                   traps(task),
                   does_not_compile(task)};
  const Result<SearchOutcome> outcome = tune_with(**runner, problem, options);
  unsetenv("TMPDIR");
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_TRUE(outcome->winner_id.empty());
  EXPECT_TRUE(outcome->winner.chosen);
  EXPECT_EQ(outcome->winner.verdict, Verdict::kOk);
  EXPECT_EQ(outcome->winner.evidence, Evidence::kPredicted);

  const Result<TuningTable> table = TuningTable::load(options.table_path);
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  const std::pair<CandidateSpec, Verdict> wanted[] = {
      {options.extra[0], Verdict::kWrong},       {options.extra[1], Verdict::kOutOfBounds},
      {options.extra[2], Verdict::kOutOfBounds}, {options.extra[3], Verdict::kNotRepeatable},
      {options.extra[4], Verdict::kTimeout},     {options.extra[5], Verdict::kDeviceError},
      {options.extra[6], Verdict::kCompileError}};
  for (const auto& [spec, verdict] : wanted) {
    int found = 0;
    for (const TuningRecord& record : table->records()) {
      if (record.source_hash != source_hash(spec.source->source)) continue;
      ++found;
      EXPECT_EQ(record.verdict, verdict) << spec.id << ": " << record.reason;
      EXPECT_FALSE(record.reason.empty()) << spec.id;
      EXPECT_FALSE(record.chosen) << spec.id;
    }
    EXPECT_EQ(found, 1) << spec.id;
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace lssar
