// What the cost model makes of tiles, blocks and SMs.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/autotune/model/cost_case.h"

namespace lssar {
namespace {

TEST(CostModel, AWarpTooManyOrTooFewLeavesSchedulersIdle) {
  const CostCase c = make_cost_case(Pass::kForward, 256, 4096, "sm_120");
  const auto work = [&](int rows) {
    Schedule schedule = c.standard();
    schedule.forward = {rows, 16, 2, 0};
    return c.work(schedule).kernels[0];
  };
  const auto expect = [&](int rows, int blocks, double busy) {
    EXPECT_EQ(work(rows).blocks_per_sm, blocks) << rows;
    EXPECT_EQ(work(rows).busy, busy) << rows;
  };
  expect(16, 3, 0.75);
  expect(32, 2, 1);
  expect(64, 1, 1);
  expect(96, 1, 0.75);
  expect(128, 1, 1);
}

TEST(CostModel, BlocksPerSmFollowFromWhatTheyNeed) {
  const CostCase c = make_cost_case(Pass::kForward, 64, 8192, "sm_80");
  Schedule schedule = c.standard();
  schedule.forward = {64, 64, 2, 1};
  const int many = c.cost(schedule).blocks_per_sm;
  EXPECT_GE(many, 3);
  schedule.forward = {64, 64, 4, 1};
  EXPECT_LE(c.cost(schedule).blocks_per_sm, many);
  schedule.forward = {128, 128, 4, 1};
  EXPECT_EQ(c.cost(schedule).blocks_per_sm, 1);  // 92 KiB of shared memory
  const CostCase hopper = make_cost_case(Pass::kForward, 64, 8192);
  EXPECT_EQ(hopper.cost().blocks_per_sm, 1);
}

TEST(CostModel, FewerBlocksThanSmsLeaveSmsIdle) {
  CostCase c = make_cost_case(Pass::kForward, 64, 128, "sm_90a", false);
  c.sizes.batch = 1;
  c.sizes.heads = c.sizes.kv_heads = 33;  // a block each, on 132 SMs
  EXPECT_NEAR(c.cost().wave_factor, 4, 1e-9);
  c.sizes.heads = c.sizes.kv_heads = 133;  // one more than SMs
  EXPECT_NEAR(c.cost().wave_factor, 2 * 132.0 / 133, 1e-9);
}

// 64 heads of 32 query tiles on 132 SMs, eight heads together: every 132nd tile of a group of 256
// is where the long ones are. Counted by hand (a few lines of Python): 1.281.
TEST(CostModel, DealtWorkCanFallUnevenly) {
  const CostCase c = make_cost_case(Pass::kForward, 64, 4096);
  Schedule schedule = c.standard();
  ASSERT_EQ(schedule.forward.block_rows, 128);
  schedule.hopper.persistent = true;
  schedule.hopper.tickets = false;
  schedule.hopper.head_group = 8;
  EXPECT_NEAR(c.cost(schedule).wave_factor, 1.281, 0.01);
  schedule.hopper.head_group = 64;
  EXPECT_NEAR(c.cost(schedule).wave_factor, 1.062, 0.01);
  schedule.hopper.tickets = true;
  EXPECT_LT(c.cost(schedule).wave_factor, 1.02);
  schedule.hopper.tickets = schedule.hopper.persistent = false;
  EXPECT_LT(c.cost(schedule).wave_factor, 1.02);
}

TEST(CostModel, TilesOfTheDiagonalAreCountedWhole) {
  const CostCase c = make_cost_case(Pass::kForward, 64, 256);
  // Blocks of 128 queries see 128 and 256 keys: 2 and 3 tiles of 96.
  const TileCount queries = query_tiles(c.problem, c.sizes, 128, 96);
  EXPECT_EQ(queries.blocks, 2);
  EXPECT_EQ(queries.tiles, 5);
  EXPECT_EQ(queries.longest, 3);
  // Blocks of 128 keys are seen by queries from 0 and from 128: 6 and 4 tiles of 48 (96 to 255).
  const TileCount keys = key_tiles(c.problem, c.sizes, 128, 48);
  EXPECT_EQ(keys.tiles, 6 + 4);
  EXPECT_EQ(keys.shortest, 4);
  // Many blocks are sampled, which is within a thousandth of the sum.
  const CostCase longer = make_cost_case(Pass::kForward, 64, 1 << 17);
  const double blocks = (1 << 17) / 64.0;
  EXPECT_NEAR(query_tiles(longer.problem, longer.sizes, 64, 64).tiles / (blocks * (blocks + 1) / 2),
              1, 1e-3);
}

TEST(CostModel, AWindowTakesTheTilesThatItVisits) {
  CostCase c = make_cost_case(Pass::kForward, 64, 4096);
  const double all = cost_term(c.cost(), Resource::kTensor);
  c.problem.window_left = 255;
  // With all keys a row sees 2048 on average, with the window 256; blocks visit a tile or two more.
  EXPECT_GT(cost_term(c.cost(), Resource::kTensor), 0.9 * all * 256 / 2048);
  EXPECT_LT(cost_term(c.cost(), Resource::kTensor), 2.5 * all * 256 / 2048);
  // A few queries read the norms of all keys, and then only the keys of the window.
  c.sizes.seq_q = 16;
  c.sizes.seq_k = 65536;
  const CostEstimate windowed = c.cost();
  EXPECT_LE(windowed.lower_bound_ms, windowed.ms);
  c.problem.window_left = -1;
  EXPECT_LT(windowed.lower_bound_ms, 0.5 * c.cost().lower_bound_ms);
}

TEST(CostModel, CountsTheTilesOfPackedHeads) {
  CostCase c = make_cost_case(Pass::kForward, 64, 256);
  c.sizes.heads = 8 * c.sizes.kv_heads;
  // Tiles of 64 rows have 8 queries of 8 heads: blocks of 16 queries, which see 16, 32, ... keys.
  const TileCount packed = packed_query_tiles(c.problem, c.sizes, 64, 128, 96);
  EXPECT_EQ(packed.blocks, 16);
  EXPECT_EQ(packed.tiles, 6 * 1 + 6 * 2 + 4 * 3);
  // 3 heads: 21 queries in a tile, 42 in a block. 71 heads: two tiles for a query.
  c.sizes.heads = 3 * c.sizes.kv_heads;
  EXPECT_EQ(packed_query_tiles(c.problem, c.sizes, 64, 128, 96).blocks, 7);
  c.sizes.heads = 71 * c.sizes.kv_heads;
  EXPECT_EQ(packed_query_tiles(c.problem, c.sizes, 64, 128, 96).blocks, 256);
}

// One query for 8 heads that share keys: a tile instead of eight.
TEST(CostModel, PackedHeadsPayWhereQueriesAreFew) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    CostCase c = make_cost_case(Pass::kForward, 128, 4096, target);
    c.sizes = {64, 64, 8, 1, 8192};
    Schedule schedule = default_schedule(c.problem, c.target);
    const double apart = c.cost(schedule).ms;
    schedule.pack_gqa = true;
    EXPECT_LT(c.cost(schedule).ms, apart / 3) << target;
  }
}

}  // namespace
}  // namespace lssar
