#include "autotune/model/cost_model.h"

#include <array>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"
#include "autotune/space/search_space.h"

namespace lssar {
namespace {

struct Case {
  Problem problem;
  Sizes sizes;
  Target target;
  GpuModel gpu;

  Schedule standard() const { return default_schedule(problem, target); }
  CostEstimate cost(const Schedule& schedule) const {
    return estimate_cost(problem, sizes, schedule, target, gpu);
  }
  CostEstimate cost() const { return cost(standard()); }
  PassWork work(const Schedule& schedule) const {
    ProblemFigures figures(problem, sizes);
    return work_of(problem, sizes, schedule, target, gpu, figures);
  }
};

Case make_case(Pass pass, int dim, int64_t length, const std::string& target = "sm_90a",
               bool causal = true) {
  Case c;
  c.problem.pass = pass;
  c.problem.head_dim = c.problem.head_dim_v = dim;
  c.problem.causal = causal;
  c.sizes = {4, 16, 16, length, length};
  c.target = *target_from_name(target);
  c.gpu = *gpu_model(target);
  return c;
}

double term(const CostEstimate& estimate, Resource resource) {
  return estimate.terms_ms[static_cast<size_t>(resource)];
}

// Softmax's forward by the same formula: two products, a special function and 4.5 slots per score.
double softmax_ms(const Case& c) {
  const double length = static_cast<double>(c.sizes.seq_q);
  const double scores = static_cast<double>(c.sizes.batch * c.sizes.heads) * length * length;
  const double clocks = c.gpu.clock_ghz * 1e6 * c.gpu.sustained * c.gpu.num_sms;
  return combine({scores * 4 * c.problem.head_dim / (clocks * c.gpu.tensor_flop),
                  scores / (clocks * c.gpu.special), scores * 4.5 / (clocks * c.gpu.issue_slots)});
}

// The time of the products, special functions and slots alone, as if tiles cost nothing else.
double three_resources_ms(const Case& c, const Schedule& schedule) {
  const double clocks = c.gpu.clock_ghz * 1e6 * c.gpu.sustained * c.gpu.num_sms;
  const PassWork work = c.work(schedule);
  double sum = 0;
  for (const Phase& phase : work.kernels[0].phases)
    sum += combine({phase.amount[0] / (clocks * c.gpu.tensor_flop),
                    phase.amount[1] / (clocks * c.gpu.special),
                    phase.amount[2] / (clocks * c.gpu.issue_slots)});
  return sum;
}

// Time relative to softmax's, computed by hand from slots per score, for two passes and tiles of
// any width: with the polynomial, and with the linear form.
TEST(CostModel, AgreesWithTheFormulaOfThreeResources) {
  struct Expected {
    int dim;
    double full, linear;
  };
  for (const Expected& expected :
       {Expected{64, 2.6, 1.9}, Expected{128, 2.0, 1.7}, Expected{256, 1.7, 1.6}}) {
    for (const int64_t length : {8192, 16384}) {
      const Case c = make_case(Pass::kForward, expected.dim, length, "sm_90a", false);
      Schedule full = c.standard();
      full.hopper.evaluator = Evaluator::kFull;
      Schedule linear = c.standard();
      const double softmax = softmax_ms(c);
      EXPECT_NEAR(three_resources_ms(c, full) / softmax, expected.full, 0.15 * expected.full);
      EXPECT_NEAR(three_resources_ms(c, linear) / softmax, expected.linear, 0.15 * expected.linear);
      const double allowed = expected.dim == 256 ? 0.3 : 0.2;
      EXPECT_GE(c.cost(full).ms, three_resources_ms(c, full));
      EXPECT_NEAR(c.cost(full).ms / softmax, expected.full, allowed * expected.full);
      EXPECT_NEAR(c.cost(linear).ms / softmax, expected.linear, allowed * expected.linear);
    }
  }
}

// A pass on its own does its part of the forward's products and special functions, and no more.
TEST(CostModel, ThePassesOfARangeAreTheForwardsParts) {
  const auto amounts = [](Pass pass) {
    Case c = make_case(pass, 128, 4096, "sm_80");
    const PassWork work = c.work(c.standard());
    std::array<double, 3> sums = {};
    for (const Phase& phase : work.kernels[0].phases)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += phase.amount[i];
    return std::pair(sums, work.kernels[0].phases.size());
  };
  const auto [sums, sum_phases] = amounts(Pass::kRowSums);
  const auto [weights, weight_phases] = amounts(Pass::kWeightedSum);
  EXPECT_EQ(sum_phases, 1u);
  EXPECT_EQ(weight_phases, 1u);
  EXPECT_NEAR(sums[0] / weights[0], 0.5, 0.02);  // q k; q k and the weights' product with v
  Case whole = make_case(Pass::kForward, 128, 4096, "sm_80");
  Case part = make_case(Pass::kRowSums, 128, 4096, "sm_80");
  EXPECT_LT(part.cost().ms, whole.cost().ms);
}

TEST(CostModel, CombinesTermsAsDocumented) {
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}), 5);
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}, 0), 7);
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 2, 0, 0}), 5);   // shared memory below the products it feeds
  EXPECT_DOUBLE_EQ(combine({1, 4, 0, 3, 0, 0}), 5);   // and above
  EXPECT_NEAR(combine({3, 4, 0, 0, 2, 1}), 5, 0.01);  // read ahead
  EXPECT_NEAR(combine({3, 4, 0, 0, 50, 1}), 50, 0.01);
  EXPECT_EQ(combine({}), 0);
  // Half the schedulers: twice the time of what each has of its own.
  EXPECT_DOUBLE_EQ(combine({3, 4, 0, 0, 0, 0}, 1, 0.5), 10);
  EXPECT_DOUBLE_EQ(combine({0, 0, 4, 3, 0, 0}, 1, 0.5), std::hypot(8, 3));
}

TEST(CostModel, AWarpTooManyOrTooFewLeavesSchedulersIdle) {
  const Case c = make_case(Pass::kForward, 256, 4096, "sm_120");
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

// Nothing is faster than the largest term at the boost clock, whatever the schedule.
TEST(CostModel, NoScheduleIsFasterThanTheLowerBound) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      for (const int64_t length : {1, 300, 4096}) {
        const Case c = make_case(pass, 128, length, target);
        const SearchSpace space = search_space(c.problem, c.target, Determinism::kAny);
        Calibration faster;
        faster.factor = {0.5, 1, 2, 1, 0.7, 1};
        CostModel model(c.problem, c.sizes, c.target, c.gpu);
        size_t seen = 0;
        for (const Algorithm& algorithm : space.algorithms) {
          Enumeration found;
          enumerate_blocks(c.problem, c.target, algorithm, &found);
          for (size_t i = 0; i < found.candidates.size(); i += 17, ++seen) {
            const CostEstimate estimate = model.estimate(found.candidates[i]);
            // What a model keeps of other estimates changes nothing.
            if (seen % 5 == 0) {
              ASSERT_EQ(estimate, c.cost(found.candidates[i]));
            }
            ASSERT_TRUE(std::isfinite(estimate.ms));
            ASSERT_GT(estimate.lower_bound_ms, 0);
            ASSERT_LE(estimate.lower_bound_ms, estimate.ms) << to_string(found.candidates[i]);
            ASSERT_GE(estimate.wave_factor, 0.999);
            const CostEstimate applied = apply(estimate, faster);
            ASSERT_LE(applied.lower_bound_ms, applied.ms);
          }
        }
        EXPECT_GT(seen, 30u);
      }
    }
  }
}

TEST(CostModel, CountsWhatAScoreCosts) {
  constexpr int kLength = 4096 * 15;  // tiles of 192, 96, 64 and 128 divide it
  const double scores = 64.0 * kLength * kLength;
  const auto amount = [&](Pass pass, DqMode mode, Resource resource) {
    const Case c = make_case(pass, 64, kLength, "sm_90a", false);
    const Schedule schedule = default_schedule(c.problem, c.target, mode);
    double sum = 0;
    for (const KernelWork& kernel : c.work(schedule).kernels)
      for (const Phase& phase : kernel.phases) sum += phase.amount[static_cast<size_t>(resource)];
    return sum / scores;
  };
  // Products: 3; with X 4; backward 7 or 5.
  const double product = 2 * 64;
  EXPECT_NEAR(amount(Pass::kForward, DqMode::kSplit, Resource::kTensor) / product, 3, 0.02);
  EXPECT_NEAR(amount(Pass::kForwardTrain, DqMode::kSplit, Resource::kTensor) / product, 4, 0.05);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kSplit, Resource::kTensor) / product, 7, 0.06);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kAtomic, Resource::kTensor) / product, 5, 0.02);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kOrdered, Resource::kTensor) / product, 5, 0.02);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kAtomic, Resource::kSpecial), 2, 0.02);
}

// One more kernel with two products and a special function per score. The forward for training has
// one product less.
TEST(CostModel, CountsEpsilonByPass) {
  const Case backward = make_case(Pass::kBackward, 128, 8192, "sm_90a", false);
  Case forward = backward;
  forward.problem.pass = Pass::kForwardTrain;
  const double scores = 4.0 * 16 * 8192 * 8192;
  const auto flop = [&](const Case& c, EpsilonFrom epsilon) {
    const Schedule schedule = with_epsilon(c.standard(), epsilon, c.problem, c.target);
    double sum = 0;
    for (const KernelWork& kernel : c.work(schedule).kernels)
      for (const Phase& phase : kernel.phases)
        sum += phase.amount[static_cast<size_t>(Resource::kTensor)];
    return sum;
  };
  const double product = 2 * 128 * scores;
  const double more = flop(backward, EpsilonFrom::kPass) - flop(backward, EpsilonFrom::kX);
  const double less = flop(forward, EpsilonFrom::kX) - flop(forward, EpsilonFrom::kPass);
  // Tiles at the end of a length count as whole ones.
  EXPECT_NEAR(more / product, 2, 0.05);
  EXPECT_NEAR(less / product, 1, 0.02);

  const double saving =
      saving_x_ms(backward.problem, backward.sizes, backward.target, backward.gpu);
  EXPECT_GT(saving, 0.05 * forward.cost().ms);
  EXPECT_LT(saving, 0.5 * forward.cost().ms);
  EXPECT_EQ(saving_x_ms(forward.problem, forward.sizes, forward.target, forward.gpu), 0);
  Problem without = backward.problem;
  without.offset = 0;
  EXPECT_EQ(saving_x_ms(without, backward.sizes, backward.target, backward.gpu), 0);
}

// Slots per score of docs/instruction_slots.md, read from machine code.
TEST(CostModel, HasTheSlotsOfTheTable) {
  struct Row {
    int dim;
    double sum, weigh;  // pass 1; pass 2 by the polynomial
  };
  for (const Row& row : {Row{64, 7.9, 17.8}, Row{128, 8.1, 18.3}}) {
    const Case c = make_case(Pass::kForward, row.dim, 4096 * 15, "sm_90a", false);
    Schedule schedule = c.standard();
    schedule.hopper.evaluator = Evaluator::kFull;
    const KernelWork work = c.work(schedule).kernels[0];
    const double length = static_cast<double>(c.sizes.seq_q);
    const double scores = 64 * length * length;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.phases[0].amount[slots] / scores, row.sum, 0.15);
    EXPECT_NEAR(work.phases[1].amount[slots] / scores, row.weigh, 0.15);
  }
  struct Backward {
    int dim;
    DType dtype;
    Evaluator evaluator;
    double dkdv, dq;
  };
  for (const Backward& row : {Backward{64, DType::kBf16, Evaluator::kFull, 23.1, 21.2},
                              Backward{128, DType::kBf16, Evaluator::kFull, 23.7, 21.8},
                              Backward{64, DType::kFp16, Evaluator::kFull, 23.7, 23.4},
                              Backward{128, DType::kFp16, Evaluator::kFull, 24.3, 24.0},
                              Backward{64, DType::kBf16, Evaluator::kLinear, 15.9, 14.3},
                              Backward{128, DType::kBf16, Evaluator::kLinear, 16.6, 14.8},
                              Backward{64, DType::kFp16, Evaluator::kLinear, 16.7, 16.5},
                              Backward{128, DType::kFp16, Evaluator::kLinear, 17.4, 17.1}}) {
    Case c = make_case(Pass::kBackward, row.dim, 48 * 1280, "sm_90a", false);
    c.problem.dtype = row.dtype;
    Schedule schedule = c.standard();
    schedule.hopper.evaluator = row.evaluator;
    const PassWork work = c.work(schedule);
    const double length = static_cast<double>(c.sizes.seq_q);
    const double scores = 64 * length * length;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.kernels[0].phases[0].amount[slots] / scores, row.dkdv, 0.4);
    EXPECT_NEAR(work.kernels[1].phases[0].amount[slots] / scores, row.dq, 0.4);
  }
  for (const auto& [mode, dim, sums] :
       {std::tuple{DqMode::kAtomic, 64, 28.0}, std::tuple{DqMode::kAtomic, 128, 28.8},
        std::tuple{DqMode::kOrdered, 64, 31.1}, std::tuple{DqMode::kOrdered, 128, 32.6}}) {
    const Case c = make_case(Pass::kBackward, dim, 48 * 1280, "sm_90a", false);
    Schedule schedule = default_schedule(c.problem, c.target, mode);
    schedule.hopper.evaluator = Evaluator::kFull;
    schedule.dkdv.block_cols = 64;
    const double length = static_cast<double>(c.sizes.seq_q);
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(c.work(schedule).kernels[0].phases[0].amount[slots] / (64 * length * length), sums,
                0.4);
  }
}

// Read from ptxas 13.0's machine code for sm_80, tiles of 64 x 64. Tensor instructions count as
// slots, and each copy of 16 bytes as 20.
TEST(CostModel, HasTheSlotsOfThePortableForward) {
  for (const auto& [dim, sum, weigh, copies] :
       {std::tuple{64, 10.6, 21.2, 2.5}, std::tuple{128, 12.25, 24.4, 5.0}}) {
    const Case c = make_case(Pass::kForward, dim, 8192, "sm_80", false);
    Schedule schedule = c.standard();
    schedule.forward = {64, 64, 3, 1};
    const KernelWork work = c.work(schedule).kernels[0];
    const double scores = 64.0 * 8192 * 8192;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.phases[0].amount[slots] / scores / (sum + copies), 1, 0.05);
    EXPECT_NEAR(work.phases[1].amount[slots] / scores / (weigh + 2 * copies), 1, 0.05);
  }
}

TEST(CostModel, ATimeIsAboutLinearInTheWork) {
  const CostEstimate once = make_case(Pass::kForward, 128, 8192).cost();
  const CostEstimate twice = make_case(Pass::kForward, 128, 16384).cost();
  EXPECT_NEAR(twice.ms / once.ms, 4, 0.4);
  const CostEstimate causal = make_case(Pass::kForward, 128, 16384, "sm_90a", true).cost();
  const CostEstimate full = make_case(Pass::kForward, 128, 16384, "sm_90a", false).cost();
  EXPECT_NEAR(full.ms / causal.ms, 2, 0.15);
}

TEST(CostModel, EveryResourceThatASchedulePaysForCostsMore) {
  const Case c = make_case(Pass::kForward, 64, 8192);
  const CostEstimate base = c.cost();
  // No overlap, one consumer, no ping-pong: nothing hides anything.
  Schedule alone = c.standard();
  alone.hopper.overlap = alone.hopper.ping_pong = false;
  alone.forward.block_rows = 64;
  EXPECT_GT(c.cost(alone).ms, 1.3 * base.ms);
  // With half as many rows per block the keys are read twice as often.
  EXPECT_NEAR(term(c.cost(alone), Resource::kL2) / term(base, Resource::kL2), 2, 0.1);
  // Fewer scores share a tile's overhead.
  Schedule narrow = c.standard();
  narrow.forward.block_cols = 16;
  EXPECT_GT(term(c.cost(narrow), Resource::kIssue), 1.3 * term(base, Resource::kIssue));
  EXPECT_GT(term(c.cost(narrow), Resource::kShared), 1.2 * term(base, Resource::kShared));
  // The polynomial for every score.
  Schedule full = c.standard();
  full.hopper.evaluator = Evaluator::kFull;
  EXPECT_GT(term(c.cost(full), Resource::kSpecial), 1.5 * term(base, Resource::kSpecial));
  // Loads come late.
  Schedule shallow = c.standard();
  shallow.forward.stages = 2;
  EXPECT_GT(c.cost(shallow).stall_ms, base.stall_ms);
  // Blocks that share loads read the L2 less often.
  Schedule cluster = c.standard();
  cluster.hopper.cluster = 2;
  EXPECT_NEAR(term(c.cost(cluster), Resource::kL2) / term(base, Resource::kL2), 0.5, 1e-9);
  // Weights through shared memory need its port.
  Schedule weights = c.standard();
  weights.hopper.weights_from = WeightsFrom::kShared;
  EXPECT_GT(term(c.cost(weights), Resource::kShared), 1.1 * term(base, Resource::kShared));
  // A comparison per score, although nothing can be skipped.
  Schedule skip = c.standard();
  skip.skip_tiles = !skip.skip_tiles;
  EXPECT_GT(std::abs(c.cost(skip).ms - base.ms), 0);
  // Queries in registers do not need the port.
  Schedule registers = c.standard();
  registers.hopper.queries_in_registers = true;
  EXPECT_LT(term(c.cost(registers), Resource::kShared), term(base, Resource::kShared));
}

TEST(CostModel, BlocksPerSmFollowFromWhatTheyNeed) {
  const Case c = make_case(Pass::kForward, 64, 8192, "sm_80");
  Schedule schedule = c.standard();
  schedule.forward = {64, 64, 2, 1};
  const int many = c.cost(schedule).blocks_per_sm;
  EXPECT_GE(many, 3);
  schedule.forward = {64, 64, 4, 1};
  EXPECT_LE(c.cost(schedule).blocks_per_sm, many);
  schedule.forward = {128, 128, 4, 1};
  EXPECT_EQ(c.cost(schedule).blocks_per_sm, 1);  // 92 KiB of shared memory
  const Case hopper = make_case(Pass::kForward, 64, 8192);
  EXPECT_EQ(hopper.cost().blocks_per_sm, 1);
}

TEST(CostModel, FewerBlocksThanSmsLeaveSmsIdle) {
  Case c = make_case(Pass::kForward, 64, 128, "sm_90a", false);
  c.sizes.batch = 1;
  c.sizes.heads = c.sizes.kv_heads = 33;  // a block each, on 132 SMs
  EXPECT_NEAR(c.cost().wave_factor, 4, 1e-9);
  c.sizes.heads = c.sizes.kv_heads = 133;  // one more than SMs
  EXPECT_NEAR(c.cost().wave_factor, 2 * 132.0 / 133, 1e-9);
}

// 64 heads of 32 query tiles on 132 SMs, eight heads together: every 132nd tile of a group of 256
// is where the long ones are. Counted by hand (a few lines of Python): 1.281.
TEST(CostModel, DealtWorkCanFallUnevenly) {
  const Case c = make_case(Pass::kForward, 64, 4096);
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
  const Case c = make_case(Pass::kForward, 64, 256);
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
  const Case longer = make_case(Pass::kForward, 64, 1 << 17);
  const double blocks = (1 << 17) / 64.0;
  EXPECT_NEAR(query_tiles(longer.problem, longer.sizes, 64, 64).tiles / (blocks * (blocks + 1) / 2),
              1, 1e-3);
}

TEST(CostModel, AWindowTakesTheTilesThatItVisits) {
  Case c = make_case(Pass::kForward, 64, 4096);
  const double all = term(c.cost(), Resource::kTensor);
  c.problem.window_left = 255;
  // With all keys a row sees 2048 on average, with the window 256; blocks visit a tile or two more.
  EXPECT_GT(term(c.cost(), Resource::kTensor), 0.9 * all * 256 / 2048);
  EXPECT_LT(term(c.cost(), Resource::kTensor), 2.5 * all * 256 / 2048);
  // A few queries read the norms of all keys, and then only the keys of the window.
  c.sizes.seq_q = 16;
  c.sizes.seq_k = 65536;
  const CostEstimate windowed = c.cost();
  EXPECT_LE(windowed.lower_bound_ms, windowed.ms);
  c.problem.window_left = -1;
  EXPECT_LT(windowed.lower_bound_ms, 0.5 * c.cost().lower_bound_ms);
}

TEST(CostModel, CountsTheTilesOfPackedHeads) {
  Case c = make_case(Pass::kForward, 64, 256);
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
    Case c = make_case(Pass::kForward, 128, 4096, target);
    c.sizes = {64, 64, 8, 1, 8192};
    Schedule schedule = default_schedule(c.problem, c.target);
    const double apart = c.cost(schedule).ms;
    schedule.pack_gqa = true;
    EXPECT_LT(c.cost(schedule).ms, apart / 3) << target;
  }
}

TEST(CostModel, NothingToDoCostsTheLaunches) {
  Case c = make_case(Pass::kForward, 64, 0);
  const CostEstimate estimate = c.cost();
  EXPECT_NEAR(estimate.ms, estimate.launch_ms, 1e-9);
  EXPECT_GT(estimate.launch_ms, 0);
}

TEST(CostModel, CheaperFormsOfSoftplusSaveInstructionsOfTheBackward) {
  const Case c = make_case(Pass::kBackward, 128, 2048);
  Schedule full = c.standard();
  full.hopper.evaluator = Evaluator::kFull;
  EXPECT_GT(term(c.cost(full), Resource::kIssue), 1.15 * term(c.cost(), Resource::kIssue));
}

TEST(CostModel, EveryTargetAndPassHasAnEstimate) {
  for (const std::string& name : known_target_names()) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      const Case c = make_case(pass, 96, 2000, name);
      EXPECT_GT(c.cost().ms, c.cost().launch_ms) << name;
      Case fp32 = c;
      fp32.problem.dtype = DType::kFp32;
      EXPECT_GT(fp32.cost().ms, c.cost().ms) << name;
    }
  }
}

TEST(CostModel, JsonNamesTheTerms) {
  const CostEstimate estimate = make_case(Pass::kForward, 64, 8192).cost();
  const nlohmann::json json = to_json(estimate);
  EXPECT_EQ(json["terms_ms"].size(), static_cast<size_t>(kNumResources));
  EXPECT_EQ(json["terms_ms"]["tensor"], term(estimate, Resource::kTensor));
  EXPECT_EQ(json["limit"], resource_name(estimate.limit));
}

TEST(GpuModel, IsFoundByTargetAndName) {
  EXPECT_EQ(gpu_model("sm_90a")->name, "H200");
  EXPECT_EQ(gpu_model("sm_90a", "NVIDIA H100 80GB HBM3")->name, "H100");
  EXPECT_EQ(gpu_model("sm_90a", "NVIDIA H100 PCIe")->num_sms, 114);
  EXPECT_EQ(gpu_model("sm_80", "NVIDIA A100-SXM4-80GB")->name, "A100");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA GeForce RTX 4090")->tensor_flop, 512);
  // An unknown card has its architecture's figures, with its own SMs and clock.
  const GpuModel other = *gpu_model("sm_86", "NVIDIA RTX A2000", 26, 1.2);
  EXPECT_EQ(other.num_sms, 26);
  EXPECT_EQ(other.clock_ghz, 1.2);
  EXPECT_FALSE(gpu_model("sm_75").ok());
}

// The data sheets' dense TFLOPS, from the figures of the table.
TEST(GpuModel, HasTheTensorRatesOfTheDataSheets) {
  const auto tflops = [](const char* target, const char* name) {
    const GpuModel gpu = *gpu_model(target, name);
    return gpu.num_sms * gpu.clock_ghz * gpu.tensor_flop * 1e-3;
  };
  EXPECT_NEAR(tflops("sm_80", "A100"), 312, 1);
  EXPECT_NEAR(tflops("sm_86", "A10"), 125, 1);
  EXPECT_NEAR(tflops("sm_86", "RTX 3090"), 71, 1);
  EXPECT_NEAR(tflops("sm_89", "L40S"), 366, 1);
  EXPECT_NEAR(tflops("sm_89", "RTX 4090"), 165, 1);
  EXPECT_NEAR(tflops("sm_90a", "H100"), 989, 1);
  EXPECT_NEAR(tflops("sm_90a", "H100 PCIe"), 756, 1);
  EXPECT_NEAR(tflops("sm_100", "B200"), 2250, 5);
  EXPECT_NEAR(tflops("sm_120", "RTX 5090"), 209.5, 1);
  EXPECT_NEAR(tflops("sm_120", "RTX 5080"), 112.6, 1);
  EXPECT_NEAR(tflops("sm_120", "RTX PRO 6000"), 503.8, 1);
}

}  // namespace
}  // namespace lssar
