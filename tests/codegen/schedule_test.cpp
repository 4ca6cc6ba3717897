#include "codegen/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "codegen/sizes.h"

namespace lssar {
namespace {

Target target(const std::string& name = "sm_80") { return target_from_name(name).value(); }

TEST(Schedule, TheDefaultIsLegalForEveryProblemOnEveryTarget) {
  for (const std::string& name : known_target_names()) {
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
        for (int dim = 8; dim <= 256; dim += 8) {
          for (int dim_v : {8, 64, 128, 200, 256}) {
            Problem problem;
            problem.causal = true;
            problem.pass = pass;
            problem.dtype = dtype;
            problem.head_dim = dim;
            problem.head_dim_v = dim_v;
            ASSERT_TRUE(validate(problem).ok());
            for (Determinism determinism : {Determinism::kRepeatable, Determinism::kAny}) {
              Schedule schedule = default_schedule(problem, target(name), determinism);
              const Status status = validate(schedule, problem, target(name));
              ASSERT_TRUE(status.ok())
                  << name << " " << to_string(problem) << " " << determinism_name(determinism)
                  << ": " << status.to_string();
            }
          }
        }
      }
    }
  }
}

Problem backward_of(DType dtype, int head_dim) {
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = head_dim;
  return problem;
}

TEST(DefaultSchedule, SumsDqWhereItIsFasterAndInTheOrderThatIsAskedFor) {
  struct Row {
    DType dtype;
    int head_dim;
    const char* target;
    DqMode repeatable, any;
  };
  const Row rows[] = {
      {DType::kBf16, 64, "sm_80", DqMode::kOrdered, DqMode::kAtomic},
      {DType::kBf16, 64, "sm_90a", DqMode::kSplit, DqMode::kAtomic},
      {DType::kFp16, 128, "sm_80", DqMode::kOrdered, DqMode::kAtomic},
      {DType::kBf16, 128, "sm_89", DqMode::kOrdered, DqMode::kAtomic},
      {DType::kBf16, 192, "sm_86", DqMode::kSplit, DqMode::kSplit},
      {DType::kBf16, 128, "sm_120", DqMode::kOrdered, DqMode::kAtomic},
      {DType::kFp16, 128, "sm_121", DqMode::kOrdered, DqMode::kAtomic},
      {DType::kBf16, 192, "sm_120", DqMode::kSplit, DqMode::kSplit},
      {DType::kBf16, 256, "sm_90a", DqMode::kSplit, DqMode::kSplit},
      {DType::kFp32, 64, "sm_80", DqMode::kSplit, DqMode::kSplit},
  };
  for (const Row& row : rows) {
    const Problem problem = backward_of(row.dtype, row.head_dim);
    const Target here = target(row.target);
    const Schedule repeatable = default_schedule(problem, here);
    EXPECT_EQ(repeatable.dq_mode, row.repeatable) << row.target << " " << to_string(problem);
    EXPECT_EQ(repeatable, default_schedule(problem, here, row.repeatable));
    const Schedule any = default_schedule(problem, here, Determinism::kAny);
    EXPECT_EQ(any.dq_mode, row.any) << row.target << " " << to_string(problem);
    EXPECT_EQ(any, default_schedule(problem, here, row.any));
  }
}

// Two blocks to an SM, or one of 128 rows: with one warp to a scheduler nothing hides its waits.
TEST(DefaultSchedule, GivesEverySchedulerOfASmallOrBlackwellSmTwoWarps) {
  for (const char* name : {"sm_86", "sm_89", "sm_100", "sm_120", "sm_121"}) {
    const Target here = target(name);
    const auto expect_two = [&](const Tiling& tiling, int bytes, const Problem& problem) {
      const int blocks = here.shared_bytes_per_sm / (bytes + kReservedSharedBytes);
      EXPECT_GE(blocks * tiling.block_rows, 128) << name << " " << to_string(problem);
      EXPECT_GE(tiling.block_rows, 64) << name << " " << to_string(problem);
    };
    for (const DType dtype : {DType::kFp16, DType::kBf16}) {
      for (int dim = 32; dim <= 256; dim += 8) {
        Problem problem = backward_of(dtype, dim);
        const Schedule backward = default_schedule(problem, here);
        // Two groups of warps share the padded columns of dq, or four where tiles have 16 columns.
        const int groups = dtype == DType::kFp16 && dim > 64 ? 4 : 2;
        const bool sums = dim <= 128 && (dim + 15) / 16 % groups == 0;
        EXPECT_EQ(backward.dq_mode, sums ? DqMode::kOrdered : DqMode::kSplit)
            << name << " " << to_string(problem);
        if (sums) expect_two(backward.dkdv, dkdv_shared_bytes(problem, backward), problem);
        for (const Pass pass : {Pass::kForward, Pass::kForwardTrain}) {
          problem.pass = pass;
          const Schedule forward = default_schedule(problem, here);
          expect_two(forward.forward, forward_shared_bytes(problem, forward), problem);
        }
      }
    }
  }
}

TEST(ScheduleFor, NoFieldIsTheDefault) {
  const Problem problem = backward_of(DType::kBf16, 64);
  for (Determinism determinism : {Determinism::kRepeatable, Determinism::kAny}) {
    const auto schedule =
        schedule_for(problem, target("sm_80"), nlohmann::json::object(), determinism);
    ASSERT_TRUE(schedule.ok());
    EXPECT_EQ(*schedule, default_schedule(problem, target("sm_80"), determinism));
  }
}

TEST(ScheduleFor, DqModeIsFittedToTilesThatAreNamed) {
  const Problem problem = backward_of(DType::kBf16, 64);
  const auto mode_with = [&](const char* dkdv) {
    const auto schedule =
        schedule_for(problem, target("sm_80"), {{"dkdv", nlohmann::json::parse(dkdv)}});
    EXPECT_TRUE(schedule.ok() && validate(*schedule, problem, target("sm_80")).ok()) << dkdv;
    return schedule->dq_mode;
  };
  EXPECT_EQ(mode_with(R"({"block_cols": 32})"), DqMode::kOrdered);
  // Two warps cannot share 64 rows of dS.
  EXPECT_EQ(mode_with(R"({"block_rows": 32, "block_cols": 64})"), DqMode::kSplit);
  // Tiles of the dq kernel ask for one.
  const auto with_dq = schedule_for(problem, target("sm_80"), {{"dq", {{"block_cols", 16}}}});
  ASSERT_TRUE(with_dq.ok());
  EXPECT_EQ(with_dq->dq_mode, DqMode::kSplit);
  EXPECT_EQ(with_dq->dq.block_cols, 16);
}

TEST(Schedule, AtomicSumsHaveALegalDefaultTilingToo) {
  for (int dim : {32, 64, 96, 128, 192, 256}) {
    for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
      Problem problem;
      problem.causal = true;
      problem.pass = Pass::kBackward;
      problem.dtype = dtype;
      problem.head_dim = problem.head_dim_v = dim;
      const Schedule schedule = default_schedule(problem, target("sm_86"), DqMode::kAtomic);
      EXPECT_EQ(schedule.dq_mode, DqMode::kAtomic);
      const Status status = validate(schedule, problem, target("sm_86"));
      EXPECT_TRUE(status.ok()) << to_string(problem) << ": " << status.to_string();
    }
  }
}

// ... and the pass over the keys for epsilon, whatever else sums dq.
TEST(Schedule, EpsilonByPassHasALegalDefaultTilingToo) {
  for (const std::string& name : known_target_names()) {
    for (int dim : {8, 64, 96, 128, 192, 256}) {
      for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
        for (Pass pass : {Pass::kForwardTrain, Pass::kBackward}) {
          for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic, DqMode::kOrdered}) {
            Problem problem;
            problem.causal = true;
            problem.pass = pass;
            problem.dtype = dtype;
            problem.head_dim = problem.head_dim_v = dim;
            const Target known = target(name);
            const Schedule schedule = default_schedule(problem, known, mode, EpsilonFrom::kPass);
            EXPECT_EQ(schedule.epsilon, EpsilonFrom::kPass);
            const Status status = validate(schedule, problem, known);
            EXPECT_TRUE(status.ok()) << name << " " << to_string(problem) << status.to_string();
            // The same from a schedule that has X.
            const Schedule with_x = default_schedule(problem, known, mode);
            EXPECT_TRUE(
                validate(with_epsilon(with_x, EpsilonFrom::kPass, problem, known), problem, known)
                    .ok())
                << name << " " << to_string(problem);
          }
        }
      }
    }
  }
}

// Without X twice the columns of o fit in registers, and one sweep of pass 2 does.
TEST(Schedule, AForwardWithoutXTakesItsColumnsAtOnce) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kForwardTrain;
  problem.head_dim = problem.head_dim_v = 256;
  for (const char* name : {"sm_80", "sm_90a", "sm_100", "sm_120"}) {
    const Schedule with_x = default_schedule(problem, target(name));
    const Schedule without = with_epsilon(with_x, EpsilonFrom::kPass, problem, target(name));
    EXPECT_LE(with_x.block_dv, 128) << name;
    EXPECT_EQ(without.block_dv, 256) << name;
    const Schedule back = with_epsilon(without, EpsilonFrom::kX, problem, target(name));
    EXPECT_EQ(back, with_x) << name;
  }
}

TEST(Schedule, EpsilonThatIsZeroNeedsNoPass) {
  for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    for (int p : {0, 15}) {
      Problem problem;
      problem.causal = true;
      problem.pass = pass;
      problem.p = p;
      if (p != 0) problem.offset = 0;
      Schedule schedule = default_schedule(problem, target());
      schedule.epsilon = EpsilonFrom::kPass;
      const Status status = validate(schedule, problem, target());
      EXPECT_EQ(status.ok(), pass == Pass::kForward) << status.to_string();
      if (status.ok()) continue;
      EXPECT_NE(status.message().find("schedule.epsilon = pass"), std::string::npos);
      EXPECT_NE(status.message().find(p == 0 ? "problem.p = 0" : "problem.offset = 0"),
                std::string::npos)
          << status.message();
    }
  }
}

// Sizes of X follow the schedule, not the problem alone.
TEST(Schedule, WhatTrainingSaves) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kForwardTrain;
  const Sizes sizes = {2, 3, 3, 100, 100};
  Schedule schedule;
  EXPECT_EQ(saved_bytes(problem, schedule, sizes)->x, 2u * 3 * 100 * problem.head_dim_v * 2);
  EXPECT_TRUE(sums_x(problem, schedule));
  schedule.epsilon = EpsilonFrom::kPass;
  EXPECT_EQ(saved_bytes(problem, schedule, sizes)->x, 0u);
  EXPECT_EQ(saved_bytes(problem, schedule, sizes)->o, 2u * 3 * 100 * problem.head_dim_v * 2);
  problem.dtype = DType::kFp32;
  EXPECT_EQ(saved_bytes(problem, schedule, sizes)->o, 0u);
  EXPECT_FALSE(sums_x(problem, schedule));
}

TEST(Schedule, SurvivesJson) {
  Schedule schedule;
  schedule.load_path = LoadPath::kPlain;
  schedule.forward = {32, 48, 3, 2};
  schedule.dkdv = {128, 16, 1, 0};
  schedule.dq = {16, 32, 4, 1};
  schedule.block_dv = 32;
  schedule.split_dkdv = true;
  schedule.dq_mode = DqMode::kAtomic;
  schedule.epsilon = EpsilonFrom::kPass;
  schedule.skip_tiles = true;
  schedule.pack_gqa = true;
  schedule.softplus_degree = 7;
  const auto back = schedule_from_json(to_json(schedule), Schedule{});
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, schedule);
}

// By default heads are packed where known lengths would leave tiles half empty, and only where
// heads share keys.
TEST(Schedule, PacksHeadsThatFillEmptyTiles) {
  const auto packs = [](Pass pass, int64_t seq_q, int64_t heads, const char* name) {
    Problem problem;
    problem.causal = true;
    problem.pass = pass;
    problem.seq_q = seq_q;
    problem.seq_k = seq_q == 0 ? 0 : 500;
    problem.heads = heads;
    return default_schedule(problem, target(name)).pack_gqa;
  };
  for (const char* name : {"sm_80", "sm_90a"}) {
    EXPECT_TRUE(packs(Pass::kForward, 1, 8, name)) << name;
    EXPECT_FALSE(packs(Pass::kForward, 1, 1, name)) << name;
    EXPECT_FALSE(packs(Pass::kForward, 0, 8, name)) << name;
    EXPECT_FALSE(packs(Pass::kForward, 256, 8, name)) << name;
    EXPECT_FALSE(packs(Pass::kBackward, 1, 8, name)) << name;
  }
}

// A field that rules it out, and split_keys 0, mean the kernels in which a block has all keys.
TEST(Schedule, NamedFieldsDecideWhetherKeysAreDivided) {
  Problem problem;
  problem.seq_q = 1;
  problem.seq_k = 1000;
  const auto split = [&](const char* json) {
    const auto schedule = schedule_for(problem, target("sm_90a"), nlohmann::json::parse(json));
    EXPECT_TRUE(schedule.ok() && validate(*schedule, problem, target("sm_90a")).ok()) << json;
    return schedule.ok() ? schedule->split_keys : -1;
  };
  EXPECT_EQ(split("{}"), 512);
  EXPECT_EQ(split(R"({"forward": {"stages": 2}})"), 512);
  EXPECT_EQ(split(R"({"split_keys": 256})"), 256);
  EXPECT_EQ(split(R"({"split_keys": 0})"), 0);
  EXPECT_EQ(split(R"({"pack_gqa": false})"), 0);
  EXPECT_EQ(split(R"({"forward": {"block_cols": 48}})"), 0);
  EXPECT_EQ(split(R"({"variant": "hopper"})"), 0);
  // Then the other fields are those of other forwards, too.
  const auto variant = [&](const char* json) {
    return schedule_for(problem, target("sm_90a"), nlohmann::json::parse(json))->variant;
  };
  EXPECT_EQ(variant("{}"), Variant::kPortable);
  EXPECT_EQ(variant(R"({"split_keys": 0})"), Variant::kHopper);
  EXPECT_EQ(variant(R"({"pack_gqa": false})"), Variant::kHopper);
  EXPECT_EQ(variant(R"({"forward": {"block_cols": 48}})"), Variant::kHopper);
  // With sequences whose lengths the problem leaves open, only the schedule says so. The other
  // fields follow it.
  problem.varlen = true;
  problem.seq_q = problem.seq_k = 0;
  problem.heads = 40;
  EXPECT_EQ(split("{}"), 0);
  EXPECT_EQ(split(R"({"split_keys": 512})"), 512);
  EXPECT_EQ(schedule_for(problem, target("sm_90a"), {{"split_keys", 512}})->forward.block_rows, 48);
}

TEST(Schedule, MissingFieldsKeepTheDefaults) {
  Schedule defaults;
  defaults.block_dv = 96;
  const auto schedule =
      schedule_from_json(nlohmann::json::parse(R"({"forward": {"block_cols": 32}})"), defaults);
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->block_dv, 96);
  EXPECT_EQ(schedule->forward.block_cols, 32);
  EXPECT_EQ(schedule->forward.block_rows, defaults.forward.block_rows);
}

struct BadJson {
  const char* text;
  const char* message;
};

TEST(Schedule, JsonErrorsNameTheField) {
  for (const BadJson& bad :
       {BadJson{R"({"dq_mode": "fast"})", "dq_mode"}, BadJson{R"({"epsilon": 1})", "epsilon"},
        BadJson{R"({"epsilon": "rows"})", "allowed are x, pass"},
        BadJson{R"({"tiles": 3})", "tiles"}, BadJson{R"({"forward": {"rows": 3}})", "rows"},
        BadJson{R"({"block_dv": "x"})", "block_dv"}, BadJson{R"([])", "schedule"}}) {
    const auto schedule = schedule_from_json(nlohmann::json::parse(bad.text), Schedule{});
    ASSERT_FALSE(schedule.ok()) << bad.text;
    EXPECT_NE(schedule.status().message().find(bad.message), std::string::npos)
        << schedule.status().to_string();
  }
}

struct Rule {
  const char* name;
  void (*break_it)(Problem&, Schedule&);
  const char* message;
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class ScheduleRule : public testing::TestWithParam<Rule> {};

TEST_P(ScheduleRule, NamesFieldValueAndReason) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kBackward;
  Schedule schedule = default_schedule(problem, target(), DqMode::kSplit);
  GetParam().break_it(problem, schedule);
  const Status status = validate(schedule, problem, target());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, ScheduleRule,
    testing::Values(
        Rule{"Rows", [](Problem&, Schedule& s) { s.dkdv.block_rows = 24; }, "block_rows = 24"},
        Rule{"Cols", [](Problem&, Schedule& s) { s.dq.block_cols = 8; }, "block_cols = 8"},
        Rule{"Stages", [](Problem&, Schedule& s) { s.dq.stages = 0; }, "stages = 0"},
        Rule{"MinBlocks", [](Problem&, Schedule& s) { s.dq.min_blocks = -1; }, "min_blocks = -1"},
        Rule{"Shared",
             [](Problem&, Schedule& s) {
               s.dq = {256, 256, 8, 0};
             },
             "shared memory"},
        Rule{"Accumulators",
             [](Problem& p, Schedule& s) {
               p.head_dim = p.head_dim_v = 192;
               s.dkdv = {16, 16, 1, 0};
             },
             "split_dkdv = false"},
        Rule{"AtomicTiles",
             [](Problem&, Schedule& s) {
               s.dq_mode = DqMode::kAtomic;
               s.dkdv = {48, 32, 1, 0};
             },
             "dq_mode atomic"},
        Rule{"Alignment", [](Problem& p, Schedule&) { p.alignment = 2; }, "alignment is 2"},
        Rule{"Degree", [](Problem&, Schedule& s) { s.softplus_degree = 9; }, "degree = 9"},
        Rule{"SkipTiles",
             [](Problem& p, Schedule& s) {
               p.pass = Pass::kForward;
               p.p = 0;
               s.skip_tiles = true;
             },
             "schedule.skip_tiles = true: not allowed with p = 0, because LSSA's weights"},
        Rule{"BlockDv",
             [](Problem& p, Schedule& s) {
               p.pass = Pass::kForward;
               s.block_dv = 80;
             },
             "block_dv = 80"},
        Rule{"BlockDvWithX",
             [](Problem& p, Schedule& s) {
               p.pass = Pass::kForwardTrain;
               p.head_dim_v = 256;
               s.block_dv = 256;
             },
             "o and X"}),
    [](const testing::TestParamInfo<Rule>& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace lssar
