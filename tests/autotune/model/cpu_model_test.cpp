// The cost model of CPUs: what each field of a schedule costs, by its direction. That estimates
// order real times is measured, not tested (docs/cost_model.md).
#include <gtest/gtest.h>

#include "autotune/model/cost_model.h"
#include "autotune/model/cpu_work.h"
#include "autotune/space/search_space.h"
#include "device/cpu/cpu_features.h"
#include "runtime/multiply_adds.h"

namespace lssar {
namespace {

struct CpuCase {
  Problem problem;
  Sizes sizes = {1, 8, 8, 2048, 2048};
  Target target = *target_from_name("x86-64-v3");
  int num_threads = 2;

  CpuCase() {
    problem.dtype = DType::kFp32;
    problem.causal = true;
  }
  Schedule schedule() const { return default_schedule(problem, target); }
  CpuModel model() const { return typical_cpu_model(target, "", num_threads); }
  CostEstimate cost(const Schedule& schedule) const {
    return estimate_cost(problem, sizes, schedule, target, model());
  }
  CostEstimate cost() const { return cost(schedule()); }
};

double term(const CostEstimate& estimate, Resource resource) {
  return estimate.terms_ms[static_cast<size_t>(resource)];
}

TEST(CpuModel, EveryCandidateHasAnEstimateAboveItsBound) {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"}) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      CpuCase c;
      c.target = *target_from_name(target);
      c.problem.dtype = cpu_level(c.target).has_bf16_pairs ? DType::kBf16 : DType::kFp32;
      c.problem.pass = pass;
      CostModel model(c.problem, c.sizes, c.target, c.model());
      Enumeration found;
      const SearchSpace space = search_space(c.problem, c.target, Determinism::kRepeatable);
      ASSERT_EQ(space.algorithms.size(), 1u);
      EXPECT_TRUE(space.excluded.empty());
      enumerate_blocks(c.problem, c.target, space.algorithms[0], &found);
      EXPECT_GT(found.candidates.size(), 10u);
      for (const Schedule& schedule : found.candidates) {
        const CostEstimate estimate = model.estimate(schedule);
        ASSERT_GT(estimate.lower_bound_ms, 0);
        ASSERT_LT(estimate.lower_bound_ms, estimate.ms) << to_string(schedule);
        for (const double ms : estimate.terms_ms) ASSERT_GE(ms, 0) << to_string(schedule);
      }
    }
  }
}

TEST(CpuModel, ProductsTakeWhatThePeakSays) {
  CpuCase c;
  c.problem.causal = false;
  const double flop = 2 * multiply_adds(c.problem, c.sizes);
  const double ms = flop / (c.model().rates.fma_gflops * 1e6 * c.num_threads);
  // A row of 6 x 16 tiles has 342 blocks of 6 queries, the last of them with 2.
  EXPECT_NEAR(term(c.cost(), Resource::kTensor) / ms, 2052.0 / 2048, 1e-9);
}

TEST(CpuModel, ActivationsThatAreNotKeptAreComputedAgain) {
  const CpuCase c;
  Schedule again = c.schedule();
  again.cpu.kept_keys = 0;
  EXPECT_NEAR(term(c.cost(again), Resource::kTensor) / term(c.cost(), Resource::kTensor), 1.5,
              0.02);
  EXPECT_GT(term(c.cost(again), Resource::kSpecial), 1.4 * term(c.cost(), Resource::kSpecial));
  Schedule half = c.schedule();
  half.cpu.kept_keys = 1024;  // a causal mask hides half of the other keys' scores
  const double more = term(c.cost(half), Resource::kTensor) / term(c.cost(), Resource::kTensor);
  EXPECT_NEAR(more, 1 + 0.5 * 0.25, 0.01);
}

// There are 2048 keys. A row of the window sees 128, and the 6 rows of a block at most 133: 9 or 10
// panels of 16. So 512 kept keys are all that a block visits.
TEST(CpuModel, AWindowTakesTheTilesThatItVisits) {
  CpuCase c;
  c.problem.causal = true;
  c.problem.window_left = 127;
  Schedule kept = c.schedule();
  kept.cpu.kept_keys = 512;
  const double products = term(c.cost(kept), Resource::kTensor);
  CpuCase all;
  all.problem.causal = false;
  const double of_all = term(all.cost(all.schedule()), Resource::kTensor);
  EXPECT_GT(products / of_all, 8.0 / 128);
  EXPECT_LT(products / of_all, 10.0 / 128);
  kept.cpu.kept_keys = 0;  // the scores, a half, once more
  EXPECT_NEAR(term(c.cost(kept), Resource::kTensor) / products, 1.5, 0.02);
}

TEST(CpuModel, FewSumsAndManyLoadsCostMore) {
  const CpuCase c;
  Schedule narrow = c.schedule();
  narrow.cpu.rows = 2;  // 4 sums: the units wait for them
  EXPECT_GT(term(c.cost(narrow), Resource::kTensor), 1.9 * term(c.cost(), Resource::kTensor));
  EXPECT_GT(term(c.cost(narrow), Resource::kShared), term(c.cost(), Resource::kShared));
  Schedule small = c.schedule();
  small.cpu.block_keys = 64;
  EXPECT_GT(term(c.cost(small), Resource::kIssue), term(c.cost(), Resource::kIssue));
  Schedule large = c.schedule();
  large.cpu.block_keys = 2048;  // its weights do not stay in the first-level cache
  EXPECT_GT(term(c.cost(large), Resource::kL2), term(c.cost(), Resource::kL2));
  Schedule cheap = c.schedule();
  cheap.softplus_degree = 6;
  EXPECT_LT(c.cost(cheap).ms, c.cost().ms);
}

TEST(CpuModel, ThreadsAndLanesDivideTheTime) {
  CpuCase one, four, wide;
  one.num_threads = 1;
  four.num_threads = 4;
  wide.target = *target_from_name("x86-64-v4");
  EXPECT_NEAR(one.cost().ms / four.cost().ms, 4, 0.1);
  EXPECT_GT(one.cost().ms / wide.cost().ms, 2.5);  // two threads and twice the lanes
  // A call this short wakes nobody.
  one.sizes = four.sizes = {1, 1, 1, 16, 16};
  EXPECT_EQ(term(one.cost(), Resource::kTensor), term(four.cost(), Resource::kTensor));
}

// Measured with 4096 Gaussian keys: values of 0.65 of the keys are multiplied for 6 rows in fp32,
// and 0.41 in 16 bits. Fewer rows have fewer. With p 0 all are.
TEST(CpuModel, SkippedKeysHaveNoProducts) {
  CpuCase c;
  c.target = *target_from_name("x86-64-v4");
  c.problem.causal = false;
  c.sizes.seq_q = c.sizes.seq_k = 4096;
  Schedule schedule = c.schedule();
  const auto live = [&](DType dtype, int p, int rows) {
    c.problem.dtype = dtype;
    c.problem.p = 0;
    schedule.cpu.rows = rows;
    const double all = term(c.cost(schedule), Resource::kTensor);
    c.problem.p = p;
    return 2 * term(c.cost(schedule), Resource::kTensor) / all - 1;
  };
  EXPECT_NEAR(live(DType::kFp32, 15, 6), 0.65, 0.06);
  EXPECT_NEAR(live(DType::kFp16, 15, 6), 0.41, 0.04);
  EXPECT_LT(live(DType::kFp32, 15, 3), 0.45);
  EXPECT_NEAR(live(DType::kFp32, 1, 6), 0.92, 0.02);  // weights are 0 below the mean
  EXPECT_EQ(live(DType::kFp16, 3, 6), 1);             // not skipped
}

// Half the products; the rest of the time is the same. Other types have no pairs.
TEST(CpuModel, PairsHalveProducts) {
  CpuCase floats, pairs;
  floats.target = *target_from_name("x86-64-v4");
  pairs.target = *target_from_name("x86-64-v4-bf16");
  EXPECT_EQ(floats.cost().ms, pairs.cost().ms);
  floats.problem.dtype = pairs.problem.dtype = DType::kBf16;
  floats.problem.p = pairs.problem.p = 3;  // no keys are skipped
  const auto products = [](const CpuCase& c) { return term(c.cost(), Resource::kTensor); };
  EXPECT_NEAR(products(floats) / products(pairs), 2, 1e-9);
  EXPECT_GT(pairs.cost().ms, 0.5 * floats.cost().ms);
  EXPECT_LT(pairs.cost().ms, 0.9 * floats.cost().ms);
  floats.problem.pass = pairs.problem.pass = Pass::kBackward;
  const Schedule schedule = pairs.schedule();  // the defaults have other tiles
  const auto backward = [&](const CpuCase& c, const CpuModel& model) {
    return term(estimate_cost(c.problem, c.sizes, schedule, c.target, model), Resource::kTensor);
  };
  const double of_floats = backward(floats, floats.model());
  EXPECT_NEAR(of_floats / backward(pairs, pairs.model()), 2, 0.01);
  CpuModel slow = pairs.model();
  slow.rates.pair_gflops = slow.rates.fma_gflops;  // half as fast as assumed
  EXPECT_NEAR(backward(pairs, slow), of_floats, 1e-9);
}

TEST(CpuModel, FewQueriesAreComputedOneByOne) {
  CpuCase few;
  few.problem.causal = false;
  few.sizes.seq_q = 1;
  const double flop = 2 * multiply_adds(few.problem, few.sizes);
  const double ms = flop / (few.model().rates.fma_gflops * 1e6 * few.num_threads);
  // One row's 2 sums instead of 8, and no rows that nobody needs.
  EXPECT_NEAR(term(few.cost(), Resource::kTensor) / ms, 4, 1e-9);
}

TEST(CpuModel, ThisMachinesIsMeasuredAndCommonOnesAreNot) {
  Machine machine;
  machine.device = cpu_features().name;
  machine.target = "x86-64-v3";
  machine.num_sms = 3;
  const Result<DeviceModel> common = common_device_model(machine);
  ASSERT_TRUE(common.ok());
  EXPECT_FALSE(cpu_of(*common)->is_measured);
  EXPECT_EQ(cpu_of(*common)->rates.fma_gflops, 96);
  EXPECT_EQ(model_units(*common), 3);
  machine.device = "another CPU";
  EXPECT_FALSE(cpu_of(*device_model(machine))->is_measured);
  if (cpu_features().level.empty()) GTEST_SKIP() << "no AVX2";
  machine.device = cpu_features().name;
  const CpuModel v3 = *cpu_of(*device_model(machine));
  EXPECT_TRUE(v3.is_measured);
  for (const double rate :
       {v3.rates.fma_gflops, v3.rates.l2_gbps, v3.rates.l3_gbps, v3.rates.memory_gbps})
    EXPECT_TRUE(rate > 0.1 && rate < 1e5) << rate;
  machine.target = "x86-64-v4";
  const CpuModel v4 = *cpu_of(*device_model(machine));
  EXPECT_EQ(v4.lanes, 16);
  if (cpu_features().level == "x86-64-v3") {  // scaled
    EXPECT_EQ(v4.rates.fma_gflops, 2 * v3.rates.fma_gflops);
  }
}

TEST(CpuModel, JsonNamesItsOwnTerms) {
  const CpuCase c;
  const nlohmann::json json = to_json(c.cost(), model_kind(c.target));
  EXPECT_EQ(json["terms_ms"]["evaluation"], term(c.cost(), Resource::kSpecial));
  EXPECT_EQ(json["limit"], resource_name(c.cost().limit, ModelKind::kCpu));
}

}  // namespace
}  // namespace lssar
