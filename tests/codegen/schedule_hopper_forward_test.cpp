// Rules of the forward of Variant::kHopper: what each refuses and why.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/schedule.h"
#include "tests/codegen/hopper_rule.h"

namespace lssar {
namespace {

class HopperForwardRule : public testing::TestWithParam<Rule> {};

TEST_P(HopperForwardRule, NamesFieldValueAndReason) { check_rule(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Forward, HopperForwardRule,
    testing::Values(
        Rule{"ScoreCols12",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.score_cols = 12; },
             {"schedule.hopper.score_cols = 12:", "multiples of 8 from 8 to 256, the columns"}},
        Rule{"ScoreCols0",
             Pass::kForwardTrain,
             [](Problem&, Schedule& s, Target&) { s.hopper.score_cols = 0; },
             {"schedule.hopper.score_cols = 0:", "8 to 256"}},
        Rule{"ScoreCols264",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.score_cols = 264; },
             {"schedule.hopper.score_cols = 264:", "8 to 256"}},
        Rule{"Cluster3",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.cluster = 3; },
             {"schedule.hopper.cluster = 3:", "allowed are 1, 2 and 4"}},
        Rule{"ClusterScoreCols",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.cluster = 2;
               s.hopper.score_cols = 72;
             },
             {"schedule.hopper.score_cols = 72: with hopper.cluster = 2, allowed are multiples of "
              "16",
              "each block loads groups of 8 keys"}},
        Rule{"ClusterCols",
             Pass::kForwardTrain,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.cluster = 4;
               s.forward.block_cols = 80;
             },
             {"schedule.forward.block_cols = 80: with hopper.cluster = 4", "multiples of 32"}},
        Rule{"TicketsOfStaticBlocks",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.persistent = false; },
             {"schedule.hopper.tickets = true: not allowed without hopper.persistent",
              "has no next one to take"}},
        Rule{"TicketsOfClusters",
             Pass::kForwardTrain,
             [](Problem&, Schedule& s, Target&) { s.hopper.cluster = 2; },
             {"schedule.hopper.cluster = 2: with hopper.tickets, allowed is 1",
              "share their work tiles"}},
        Rule{"Stagger0",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.stagger = 0; },
             {"schedule.hopper.stagger = 0:", "allowed are 1 to 64"}},
        Rule{"Stagger65",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.hopper.stagger = 65; },
             {"schedule.hopper.stagger = 65:", "allowed are 1 to 64"}},
        Rule{"StaggerWithoutOverlap",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.stagger = 2;
               s.hopper.overlap = false;
             },
             {"schedule.hopper.overlap = false: not allowed with hopper.stagger = 2",
              "both passes are in flight"}},
        Rule{"StaggerOfQueriesInRegisters",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.stagger = 2;
               s.hopper.queries_in_registers = true;
               s.hopper.store_path = StorePath::kRegisters;
             },
             {"schedule.hopper.queries_in_registers = true: not allowed with hopper.stagger = 2",
              "the queries of two tiles"}},
        Rule{"StaggerOfClusters",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.causal = false;
               s.hopper.tickets = false;
               s.hopper.stagger = 2;
               s.hopper.cluster = 2;
             },
             {"schedule.hopper.cluster = 2: not allowed with hopper.stagger = 2",
              "one staggered block takes in a row"}},
        Rule{"StaggerOfSkippedTiles",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.stagger = 4;
               s.skip_tiles = true;
             },
             {"schedule.skip_tiles = true: not allowed with hopper.stagger = 4",
              "pass 1 needs the products of every tile"}},
        Rule{"StaggerOfSomeColumns",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.stagger = 2;
               s.hopper.store_path = StorePath::kRegisters;
               s.block_dv = 32;
             },
             {"schedule.block_dv = 32: not allowed with hopper.stagger = 2", "head_dim_v, 64",
              "one sweep of pass 2"}},
        Rule{"SharedWeights",
             Pass::kForwardTrain,
             [](Problem&, Schedule& s, Target&) { s.hopper.weights_from = WeightsFrom::kShared; },
             {"schedule.forward: its tiles take 293312 bytes of shared memory"}},
        Rule{"StoreOfQueriesInRegisters",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.store_path = StorePath::kTma;
               s.hopper.queries_in_registers = true;
             },
             {"schedule.hopper.store_path = tma: not allowed with hopper.queries_in_registers",
              "the next work tile's already"}},
        Rule{"StoreOfSomeColumns",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) {
               s.hopper.store_path = StorePath::kTma;
               s.block_dv = 32;
             },
             {"schedule.hopper.store_path = tma: block_dv must be head_dim_v, 64, and is 32"}},
        Rule{"StoreOfOddColumns",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim_v = s.block_dv = 40;
               s.hopper.store_path = StorePath::kTma;
             },
             {"schedule.hopper.store_path = tma: block_dv must be a multiple of 16", "is 40"}},
        Rule{"StoreOfWideRows",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim_v = s.block_dv = 80;
               s.hopper.store_path = StorePath::kTma;
             },
             {"schedule.hopper.store_path = tma: block_dv 80 is more than the query tile of "
              "head_dim 64"}},
        Rule{"QueriesInRegisters",
             Pass::kForward,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim = 136;
               s.forward.stages = 2;
               s.hopper.queries_in_registers = true;
             },
             {"schedule.hopper.queries_in_registers = true:", "up to head_dim 128",
              "registers beside the accumulators, and it is 136"}},
        Rule{"BlockDv12",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.block_dv = 12; },
             {"schedule.block_dv = 12:", "multiples of 8 from 8 to 256, the columns of a wgmma"}},
        Rule{"BlockDv0",
             Pass::kForward,
             [](Problem&, Schedule& s, Target&) { s.block_dv = 0; },
             {"schedule.block_dv = 0:", "8 to 256"}},
        Rule{"BlockDvWithX",
             Pass::kForwardTrain,
             [](Problem& p, Schedule& s, Target&) {
               p.head_dim_v = 256;
               s.block_dv = 136;
             },
             {"schedule.block_dv = 136:", "8 to 128", "o and X in registers together"}}),
    rule_name);

// Tiles differ by how many keys they see. Fields that the user left out give way.
TEST(HopperTickets, AreTheDefaultWhereTilesDiffer) {
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain}) {
    for (const int dim : {64, 128, 256}) {
      Problem problem = make_problem(pass, DType::kBf16, dim);
      problem.causal = true;
      EXPECT_TRUE(default_schedule(problem, hopper()).hopper.tickets);
      for (const char* json :
           {R"({"hopper": {"persistent": false}})", R"({"hopper": {"cluster": 2}})"}) {
        const auto schedule = schedule_for(problem, hopper(), nlohmann::json::parse(json));
        ASSERT_TRUE(schedule.ok()) << schedule.status().to_string();
        EXPECT_FALSE(schedule->hopper.tickets) << json;
      }
      problem.causal = false;
      EXPECT_FALSE(default_schedule(problem, hopper()).hopper.tickets);
    }
  }
}

// Fields that the user left out give way to the scores of two tiles, and to their queries.
TEST(HopperStagger, BringsTilesOfItsOwn) {
  for (const int dim : {64, 96, 128}) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain}) {
      const Problem problem = make_problem(pass, DType::kBf16, dim);
      const auto schedule = schedule_for(problem, hopper(), {{"hopper", {{"stagger", 2}}}});
      ASSERT_TRUE(schedule.ok()) << schedule.status().to_string();
      EXPECT_TRUE(validate(*schedule, problem, hopper()).ok())
          << validate(*schedule, problem, hopper()).to_string();
      EXPECT_LT(schedule->forward.block_cols, 128);
      EXPECT_GE(schedule->forward.stages, 4);
      const auto named = schedule_for(
          problem, hopper(),
          {{"forward", {{"block_cols", 32}, {"stages", 3}}}, {"hopper", {{"stagger", 2}}}});
      ASSERT_TRUE(named.ok()) << named.status().to_string();
      EXPECT_EQ(named->forward.block_cols, 32);
      EXPECT_EQ(named->forward.stages, 3);
    }
  }
}

}  // namespace
}  // namespace lssar
