// Schedules of Variant::kHopper: every default is legal, every rule says what it refuses and why.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <vector>

#include "codegen/emit.h"
#include "codegen/schedule.h"
#include "score/score_text.h"
#include "tests/codegen/hopper_rule.h"

namespace lssar {
namespace {

TEST(HopperSchedule, TheDefaultIsLegalForEveryDim) {
  for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    for (DType dtype : {DType::kBf16, DType::kFp16}) {
      for (int dim = 8; dim <= 256; dim += 8) {
        for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic, DqMode::kOrdered}) {
          const Problem problem = make_problem(pass, dtype, dim);
          const Schedule schedule = default_schedule(problem, hopper(), mode);
          const Status status = validate(schedule, problem, hopper());
          ASSERT_TRUE(status.ok()) << to_string(problem) << ": " << status.to_string();
          EXPECT_EQ(schedule.dq_mode, mode);
          const bool spills = pass == Pass::kBackward && mode != DqMode::kSplit && dim > 128;
          EXPECT_EQ(schedule.variant, spills ? Variant::kPortable : Variant::kHopper)
              << to_string(problem);
        }
      }
    }
  }
}

TEST(HopperSchedule, IsTheDefaultOfEveryScoreFunction) {
  for (const char* score : {"softmax", "sigmoid", "softmax,psi=(x - b) / N",
                            "phi=relu(x)^2 + 0.01*x,normalizer=sum_abs", "softmax,sink=per_head",
                            "softmax,sink=per_head,psi=(x - b) / N"}) {
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      for (DType dtype : {DType::kBf16, DType::kFp16}) {
        for (int dim = 8; dim <= 256; dim += 8) {
          for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic, DqMode::kOrdered}) {
            Problem problem = make_problem(pass, dtype, dim);
            problem.p = 0;
            problem.score = parse_score(score).value();
            const Schedule schedule = default_schedule(problem, hopper(), mode);
            const Status status = validate(schedule, problem, hopper());
            ASSERT_TRUE(status.ok()) << to_string(problem) << ": " << status.to_string();
            const bool spills = pass == Pass::kBackward && mode != DqMode::kSplit && dim > 128;
            EXPECT_EQ(schedule.variant, spills ? Variant::kPortable : Variant::kHopper)
                << to_string(problem);
          }
        }
      }
    }
  }
}

// The kernels serve each of these otherwise.
TEST(HopperSchedule, IsNotTheDefaultWhereItCannotServe) {
  const auto variant = [](const Problem& problem, const char* name) {
    return default_schedule(problem, target_from_name(name).value()).variant;
  };
  const Problem served = make_problem(Pass::kForward);
  EXPECT_EQ(variant(served, "sm_90a"), Variant::kHopper);
  EXPECT_EQ(variant(served, "sm_90"), Variant::kPortable);
  EXPECT_EQ(variant(served, "sm_100"), Variant::kPortable);
  EXPECT_EQ(variant(make_problem(Pass::kForward, DType::kFp32), "sm_90a"), Variant::kPortable);
  EXPECT_EQ(variant(make_problem(Pass::kRowSums), "sm_90a"), Variant::kPortable);
  EXPECT_EQ(variant(make_problem(Pass::kWeightedSum), "sm_90a"), Variant::kPortable);
  Problem unaligned = served;
  unaligned.alignment = 8;
  EXPECT_EQ(variant(unaligned, "sm_90a"), Variant::kPortable);
}

TEST(HopperSchedule, SurvivesJson) {
  Schedule schedule;
  schedule.variant = Variant::kHopper;
  schedule.skip_tiles = true;
  HopperOptions& options = schedule.hopper;
  options.score_cols = 72;
  options.queries_in_registers = true;
  options.overlap = options.ping_pong = options.persistent = false;
  options.tickets = true;
  options.stagger = 5;
  options.head_group = 3;
  options.cluster = 2;
  options.weights_from = WeightsFrom::kShared;
  options.store_path = StorePath::kTma;
  options.evaluator = Evaluator::kShort;
  options.producer_registers = 32;
  options.consumer_registers = 160;
  const auto back = schedule_from_json(to_json(schedule), Schedule{});
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, schedule);
}

TEST(HopperSchedule, JsonErrorsNameTheField) {
  const char* const bad[][2] = {
      {R"({"hopper": {"norm_form": "operands"}})",
       "schedule.hopper.norm_form = \"operands\": allowed is scores"},
      {R"({"hopper": {"norm_form": 1}})", "norm_form = 1: allowed is scores"},
      {R"({"hopper": {"evaluator": "fast"}})", "evaluator"},
      {R"({"hopper": {"weights_from": "l2"}})", "weights_from"},
      {R"({"hopper": {"store_path": "bulk"}})", "store_path"},
      {R"({"hopper": {"multi_cast": true}})", "schedule.hopper.multi_cast"},
      {R"({"hopper": 3})", "hopper"},
      {R"({"variant": "blackwell"})", "variant"}};
  for (const auto& [text, field] : bad) {
    const auto schedule = schedule_from_json(nlohmann::json::parse(text), Schedule{});
    ASSERT_FALSE(schedule.ok()) << text;
    EXPECT_EQ(schedule.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(schedule.status().message().find(field), std::string::npos)
        << schedule.status().to_string();
  }
}

// Records and captures that were written when it was a choice.
TEST(HopperSchedule, TheNormFormThatIsLeftIsRead) {
  const auto json = nlohmann::json::parse(R"({"hopper": {"norm_form": "scores", "stagger": 2}})");
  const auto schedule = schedule_from_json(json, Schedule{});
  ASSERT_TRUE(schedule.ok()) << schedule.status().to_string();
  EXPECT_EQ(schedule->hopper.stagger, 2);
  EXPECT_FALSE(to_json(*schedule)["hopper"].contains("norm_form"));
}

// Fields that the user leaves out come from the variant that the user names, because the other
// variant's tiles may be illegal there.
TEST(HopperSchedule, ANamedVariantBringsItsOwnDefaults) {
  for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    for (int dim : {32, 64, 128, 256}) {
      const Problem problem = make_problem(pass, DType::kBf16, dim);
      const auto portable = schedule_for(problem, hopper(), {{"variant", "portable"}});
      ASSERT_TRUE(portable.ok()) << portable.status().to_string();
      EXPECT_EQ(*portable, default_schedule(problem, target_from_name("sm_90").value()));
      EXPECT_TRUE(validate(*portable, problem, hopper()).ok());
      const auto same = schedule_for(problem, hopper(), {{"variant", "hopper"}});
      ASSERT_TRUE(same.ok()) << same.status().to_string();
      EXPECT_EQ(*same, default_schedule(problem, hopper()));
    }
  }
  // Its default is portable, because it spills.
  const Problem wide = make_problem(Pass::kBackward, DType::kBf16, 128);
  const auto atomic = schedule_for(wide, hopper(), {{"variant", "hopper"}, {"dq_mode", "atomic"}});
  ASSERT_TRUE(atomic.ok()) << atomic.status().to_string();
  EXPECT_EQ(atomic->variant, Variant::kHopper);
  EXPECT_TRUE(validate(*atomic, wide, hopper()).ok());
}

TEST(HopperSchedule, TheDefaultSumPathIsTmaWhereThereIsRoom) {
  Problem problem = make_problem(Pass::kBackward);
  EXPECT_EQ(default_schedule(problem, hopper(), DqMode::kAtomic).hopper.sum_path, StorePath::kTma);
  EXPECT_EQ(default_schedule(problem, hopper(), DqMode::kOrdered).hopper.sum_path,
            StorePath::kRegisters);
  problem.head_dim = 136;
  const auto wide = schedule_for(problem, hopper(), {{"variant", "hopper"}, {"dq_mode", "atomic"}});
  ASSERT_TRUE(wide.ok()) << wide.status().to_string();
  EXPECT_EQ(wide->hopper.sum_path, StorePath::kRegisters);
  EXPECT_TRUE(validate(*wide, problem, hopper()).ok());
}

// Fields that the user left out give way to those that the user set.
TEST(HopperSchedule, TheDefaultStorePathGivesWay) {
  const Problem problem = make_problem(Pass::kForward);
  const auto path = [&](const nlohmann::json& json) {
    const auto schedule = schedule_for(problem, hopper(), json);
    EXPECT_TRUE(schedule.ok() && validate(*schedule, problem, hopper()).ok()) << json;
    return schedule->hopper.store_path;
  };
  EXPECT_EQ(path(nlohmann::json::object()), StorePath::kTma);
  EXPECT_EQ(path({{"block_dv", 32}}), StorePath::kRegisters);
  EXPECT_EQ(path({{"hopper", {{"queries_in_registers", true}}}}), StorePath::kRegisters);
}

class HopperRule : public testing::TestWithParam<Rule> {};

TEST_P(HopperRule, NamesFieldValueAndReason) { check_rule(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Any, HopperRule,
    testing::Values(
        Rule{"Target",
             Pass::kForward,
             [](Problem&, Schedule&, Target& other) { other = target_from_name("sm_90").value(); },
             {"schedule.variant = hopper", "allowed for target sm_90a, and this is sm_90"}},
        Rule{"Generation",
             Pass::kForward,
             [](Problem&, Schedule&, Target& other) { other = target_from_name("sm_120").value(); },
             {"schedule.variant = hopper", "sm_90a, and this is sm_120"}},
        Rule{"Dtype",
             Pass::kForward,
             [](Problem& p, Schedule&, Target&) { p.dtype = DType::kFp32; },
             {"schedule.variant = hopper", "fp16 and bf16, because wgmma rounds fp32 operands"}},
        Rule{"Alignment",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.alignment = 8;
               s.load_path = LoadPath::kPlain;
             },
             {"schedule.variant = hopper", "TMA needs a problem.alignment of 16, and it is 8"}},
        Rule{"HeadGroup0",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.head_group = 0; },
             {"schedule.hopper.head_group = 0:", "allowed are 1 to 1024"}},
        Rule{"HeadGroup1025",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.hopper.head_group = 1025; },
             {"schedule.hopper.head_group = 1025:", "allowed are 1 to 1024"}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Tiling, HopperRule,
    testing::Values(
        Rule{"Rows96",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.block_rows = 96; },
             {"schedule.forward.block_rows = 96:", "64, 128 and 192", "owns 64 rows"}},
        Rule{"Rows0",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.block_rows = 0; },
             {"schedule.forward.block_rows = 0:", "64, 128 and 192"}},
        Rule{"Rows256",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.block_rows = 256; },
             {"schedule.dkdv.block_rows = 256:", "64, 128 and 192"}},
        Rule{"Cols8",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dq.block_cols = 8; },
             {"schedule.dq.block_cols = 8:", "multiples of 16 from 16 to 256, the depth"}},
        Rule{"Cols72",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.block_cols = 72; },
             {"schedule.forward.block_cols = 72:", "multiples of 16"}},
        Rule{"Cols272",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.block_cols = 272; },
             {"schedule.dkdv.block_cols = 272:", "16 to 256"}},
        Rule{"Stages1",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.stages = 1; },
             {"schedule.forward.stages = 1:", "2 to 12", "in use together"}},
        Rule{"Stages13",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dq.stages = 13; },
             {"schedule.dq.stages = 13:", "2 to 12"}},
        Rule{"MinBlocks0",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.min_blocks = 0; },
             {"schedule.dkdv.min_blocks = 0:", "allowed are 1 to 4"}},
        Rule{"MinBlocks5",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.min_blocks = 5; },
             {"schedule.forward.min_blocks = 5:", "allowed are 1 to 4"}},
        Rule{"MinBlocksOfLargeBlocks",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.min_blocks = 2; },
             {"schedule.forward.min_blocks = 2:", "bytes of shared memory do not fit on an SM"}},
        Rule{"SharedForward",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim = 256;
               s.forward.stages = 12;
             },
             {"schedule.forward", "shared memory"}},
        Rule{"SharedDkdv",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) {
               s.dkdv.block_cols = 64;
               s.dkdv.stages = 12;
             },
             {"schedule.dkdv", "shared memory"}},
        Rule{"SharedDq",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dq.stages = 12; },
             {"schedule.dq", "shared memory"}},
        Rule{"PingPongForward",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.forward.block_rows = 64; },
             {"schedule.forward.block_rows = 64: with hopper.ping_pong, allowed are 128 and 192",
              "it takes two consumers"}},
        Rule{"PingPongDkdv",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.block_rows = 64; },
             {"schedule.dkdv.block_rows = 64: with hopper.ping_pong"}},
        Rule{"PingPongDq",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dq.block_rows = 64; },
             {"schedule.dq.block_rows = 64: with hopper.ping_pong"}}),
    rule_name);

void set_registers(Schedule& schedule, int producer, int consumer) {
  schedule.hopper.producer_registers = producer;
  schedule.hopper.consumer_registers = consumer;
}

INSTANTIATE_TEST_SUITE_P(
    Registers, HopperRule,
    testing::Values(
        Rule{"Producer25",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 25, 240); },
             {"schedule.hopper.producer_registers = 25:", "multiples of 8 from 24 to 240"}},
        Rule{"Producer16",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 16, 240); },
             {"schedule.hopper.producer_registers = 16:", "24 to 240"}},
        Rule{"Consumer248",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 24, 248); },
             {"schedule.hopper.consumer_registers = 248:", "24 to 240, or 0 and 0"}},
        Rule{"OneOfThem",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 24, 0); },
             {"schedule.hopper.consumer_registers = 0:", "or 0 and 0"}},
        Rule{"LessThanLaunched",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 24, 160); },
             {"schedule.hopper.consumer_registers = 160:", "with 384 threads and 1 blocks per SM",
              "starts with 168 registers: allowed are that and more"}},
        Rule{"Sum",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { set_registers(s, 40, 240); },
             {"schedule.hopper.consumer_registers = 240:",
              "the producer's 40 and 256 consumer threads need 66560 registers; 384 threads of 168 "
              "have 64512"}},
        Rule{"ThreeConsumers",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.forward.block_rows = 192;
               set_registers(s, 24, 240);
             },
             {"schedule.hopper.consumer_registers = 240:", "384 consumer threads",
              "512 threads of 128 have 65536"}},
        Rule{"DqConsumers",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) {
               s.dq.block_rows = 192;
               set_registers(s, 24, 240);
             },
             {"schedule.hopper.consumer_registers = 240:", "512 threads of 128"}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Backward, HopperRule,
    testing::Values(
        Rule{"Accumulators",
             Pass::kBackward,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim = 136;
               p.head_dim_v = 128;
               s.dkdv.stages = s.dq.stages = 2;
             },
             {"schedule.split_dkdv = false:", "head_dim + head_dim_v = 264 is above 256",
              "do not fit in registers together"}},
        Rule{"AtomicCols",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.block_cols = 32; },
             {"schedule.dkdv.block_cols = 32: with dq_mode atomic or ordered, allowed is 64",
              "the rows of a wgmma"},
             DqMode::kAtomic},
        Rule{"AtomicRows",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) {
               s.dkdv.block_rows = 192;
               s.hopper.producer_registers = 32;
               s.hopper.consumer_registers = 160;
             },
             {"schedule.dkdv.block_rows = 192: with dq_mode atomic or ordered, allowed are 64 and",
              "share the columns of dq"},
             DqMode::kAtomic},
        Rule{"AtomicTurns",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.hopper.ping_pong = true; },
             {"schedule.hopper.ping_pong = true:", "not allowed with dq_mode atomic or ordered",
              "exchange dS' at once"},
             DqMode::kAtomic},
        Rule{"OrderedPersistent",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.hopper.persistent = true; },
             {"schedule.hopper.persistent = true:", "not allowed with dq_mode ordered",
              "takes its work tile when it starts"},
             DqMode::kOrdered},
        Rule{"OrderedSumPath",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.hopper.sum_path = StorePath::kTma; },
             {"schedule.hopper.sum_path = tma: allowed with dq_mode atomic", "ordered turn"},
             DqMode::kOrdered},
        Rule{
            "SplitSumPath",
            Pass::kBackward,
            [](Problem&, Schedule& s, Target&) { s.hopper.sum_path = StorePath::kTma; },
            {"schedule.hopper.sum_path = tma: allowed with dq_mode atomic", "sums dq in registers"},
            DqMode::kSplit},
        Rule{"AtomicShared",
             Pass::kBackward,
             [](Problem&, Schedule& s, Target&) { s.dkdv.stages = 12; },
             {"schedule.dkdv", "shared memory"},
             DqMode::kAtomic}),
    rule_name);

}  // namespace
}  // namespace lssar
