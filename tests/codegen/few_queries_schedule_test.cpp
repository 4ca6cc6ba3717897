// The schedules of few queries, whose forward divides the keys among blocks.
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "codegen/schedule.h"

namespace lssar {
namespace {

Target target(const std::string& name = "sm_80") { return target_from_name(name).value(); }

// The forward alone divides keys among blocks, where few queries see more than 512 keys.
TEST(FewQueriesSchedule, DividesTheKeys) {
  const auto split = [](const Problem& problem, const char* name) {
    return default_schedule(problem, target(name)).split_keys;
  };
  for (const char* name : {"sm_80", "sm_90a", "sm_120"}) {
    Problem problem;
    problem.seq_q = 1;
    problem.seq_k = 1000;
    EXPECT_EQ(split(problem, name), 512) << name;
    EXPECT_TRUE(validate(default_schedule(problem, target(name)), problem, target(name)).ok());
    problem.seq_k = 0;
    EXPECT_EQ(split(problem, name), 512) << name;
    problem.seq_q = 16;
    EXPECT_EQ(split(problem, name), 512) << name;
    problem.heads = 8;  // more rows, of which each has a part of o for every chunk
    EXPECT_EQ(split(problem, name), 1024) << name;
    EXPECT_EQ(default_schedule(problem, target(name)).forward.block_rows, 64) << name;
    for (auto [seq_q, seq_k] : {std::pair<int64_t, int64_t>{17, 1000}, {1, 512}, {0, 1000}}) {
      problem.seq_q = seq_q;
      problem.seq_k = seq_k;
      EXPECT_EQ(split(problem, name), 0) << name << " " << seq_q << "x" << seq_k;
    }
    problem.seq_q = 1;
    problem.seq_k = 1000;
    for (const Pass pass : {Pass::kForwardTrain, Pass::kBackward, Pass::kRowSums}) {
      problem.pass = pass;
      EXPECT_EQ(split(problem, name), 0) << name << " " << pass_name(pass);
    }
  }
  Problem problem;
  problem.seq_q = 1;
  problem.seq_k = 1000;
  EXPECT_EQ(split(problem, "x86-64-v3"), 0);
}

// What a problem says of its longest sequence chooses the schedule, and is not built in.
TEST(FewQueriesSchedule, FollowsTheLongestSequence) {
  Problem problem;
  problem.varlen = problem.causal = true;
  problem.heads = 4;
  problem.rotary_dim = 32;
  for (const char* name : {"sm_80", "sm_90a", "sm_120"}) {
    for (auto [seq_q, seq_k] :
         {std::pair<int64_t, int64_t>{1, 0}, {16, 0}, {1, 5000}, {1, 512}, {17, 0}, {0, 5000}}) {
      problem.seq_q = seq_q;
      problem.seq_k = seq_k;
      Problem fixed = problem;
      fixed.varlen = false;
      const Schedule schedule = default_schedule(problem, target(name));
      EXPECT_TRUE(validate(schedule, problem, target(name)).ok()) << name;
      EXPECT_EQ(schedule.split_keys, default_schedule(fixed, target(name)).split_keys)
          << name << " " << seq_q << "x" << seq_k;
      const auto source = emit_kernel(problem, schedule, target(name));
      ASSERT_TRUE(source.ok()) << source.status().to_string();
      EXPECT_THAT(source->source, testing::HasSubstr("kSeqQ = 0;"));
      EXPECT_THAT(source->source, testing::HasSubstr("kSeqK = 0;"));
    }
    // Hopper's kernels of sequences pack no heads.
    problem.kv_heads = 1;
    problem.seq_q = 4;
    problem.seq_k = 300;
    EXPECT_EQ(default_schedule(problem, target(name)).pack_gqa, name[3] != '9') << name;
    EXPECT_TRUE(validate(default_schedule(problem, target(name)), problem, target(name)).ok());
    problem.kv_heads = 4;
  }
}

// An error names what split_keys does not go with, and why.
TEST(FewQueriesSchedule, SaysWhyKeysCannotBeDivided) {
  Problem few;
  few.seq_q = 1;
  few.seq_k = 1000;
  const auto expect = [&](const char* message, auto break_it) {
    Problem problem = few;
    Schedule schedule = default_schedule(problem, target());
    break_it(problem, schedule);
    EXPECT_THAT(validate(schedule, problem, target()).message(), testing::HasSubstr(message));
  };
  expect("allowed is 0 with problem.invariant, because calls with more queries sum their keys",
         [](Problem& p, Schedule&) { p.invariant = true; });
  expect("problem.seq_q = 17, because the workspace has the scores of all rows; allowed are other",
         [](Problem& p, Schedule&) { p.seq_q = 17; });
  expect("problem.seq_q = 17, because the workspace has the scores of all rows; allowed are other",
         [](Problem& p, Schedule&) { p.varlen = true, p.seq_q = 17; });
  expect("skip_tiles = true, because these kernels leave out values without weights anyway",
         [](Problem&, Schedule& s) { s.skip_tiles = true; });
  expect("forward.block_cols = 48, because it must divide split_keys: a chunk has whole tiles",
         [](Problem&, Schedule& s) { s.forward.block_cols = 48; });
}

}  // namespace
}  // namespace lssar
