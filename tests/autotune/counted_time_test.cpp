// What counts are worth in time: by themselves, and with what no count shows, which comes from the
// cost model.
#include "autotune/measure/counted_time.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "autotune/space/search_space.h"
#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"

namespace lssar {
namespace {

LaunchCounters of_instructions(uint64_t warps) {
  LaunchCounters counters;
  counters.warp_instructions = warps;
  return counters;
}

double tiles_ms(const LaunchCounters& counters, const GpuModel& gpu,
                const KernelExtent& extent = {}, double scale = 1) {
  return counted_tiles_ms(counters, gpu, Variant::kHopper, extent, scale);
}

// One SM with 10^6 clocks to a millisecond.
GpuModel small_gpu() {
  GpuModel gpu;
  gpu.num_sms = 1;
  gpu.clock_ghz = 2;
  gpu.sustained = 0.5;
  gpu.special = 16;
  gpu.issue_slots = 128;
  gpu.tensor_flop = 1000;
  gpu.l2_gbps = 64;
  gpu.dram_gbps = 16;
  return gpu;
}

// Counts of 3 ms of instructions and 4 ms of special functions.
LaunchCounters three_and_four() {
  LaunchCounters counters = of_instructions(4 * 3000000);
  counters.instructions[size_t(InstructionClass::kSpecial)].lanes = 16 * 4000000;
  return counters;
}

TEST(CountedTime, IsCombinedAsInTheModelOverTheSustainedClock) {
  const GpuModel gpu = small_gpu();
  EXPECT_EQ(tiles_ms({}, gpu), 0);
  EXPECT_DOUBLE_EQ(tiles_ms(of_instructions(4 * 3000000), gpu), 3);
  EXPECT_DOUBLE_EQ(tiles_ms(three_and_four(), gpu), 5);
  EXPECT_DOUBLE_EQ(counted_rows_ms(three_and_four(), gpu), 5);
}

TEST(CountedTime, MoreOfAnyCountIsMoreTime) {
  const Result<GpuModel> gpu = gpu_model("sm_90a");
  ASSERT_TRUE(gpu.ok()) << gpu.status().to_string();
  const std::vector<std::function<void(LaunchCounters&)>> more = {
      [](LaunchCounters& c) { c.warp_instructions += 1000; },
      [](LaunchCounters& c) { c.instructions[size_t(InstructionClass::kSpecial)].lanes += 1000; },
      [](LaunchCounters& c) { c.tensor_flop[size_t(TensorType::kBf16)] += 1000000; },
      [](LaunchCounters& c) { c.shared[size_t(AccessKind::kRead)].wavefronts += 1000; },
      [](LaunchCounters& c) { c.global[size_t(AccessKind::kWrite)].sectors += 1000; },
      [](LaunchCounters& c) { c.global[size_t(AccessKind::kAtomic)].sectors += 1000; },
      [](LaunchCounters& c) { c.tma_load_bytes += 1000; },
      [](LaunchCounters& c) { c.tma_reduce_bytes += 1000; },
  };
  LaunchCounters all;
  double last_tiles = 0, last_rows = 0;
  for (const auto& add : more) {
    LaunchCounters alone;
    add(alone);
    EXPECT_GT(tiles_ms(alone, *gpu), 0);
    EXPECT_GT(counted_rows_ms(alone, *gpu), 0);
    add(all);  // what is hidden behind others takes no time
    const double tiles = tiles_ms(all, *gpu), rows = counted_rows_ms(all, *gpu);
    EXPECT_GE(tiles, last_tiles);
    EXPECT_GE(rows, last_rows);
    last_tiles = tiles;
    last_rows = rows;
  }
}

TEST(CountedTime, WhatIsAddedToSumsCostsTwiceWhatIsRead) {
  LaunchCounters read, added;
  read.tma_load_bytes = 2000000;
  added.tma_reduce_bytes = 1000000;
  EXPECT_DOUBLE_EQ(tiles_ms(added, small_gpu()), tiles_ms(read, small_gpu()));
}

TEST(CountedTime, WholeRowsComeFromDram) {
  GpuModel gpu = small_gpu();
  LaunchCounters counters;
  counters.global[size_t(AccessKind::kRead)].sectors = 1000000;
  const double ms = counted_rows_ms(counters, gpu);
  EXPECT_NEAR(ms, 32e6 / (gpu.dram_gbps * 0.9 * 1e6), 1e-3 * ms);
  gpu.dram_gbps = 1000;  // more than the L2 has
  const double cached = counted_rows_ms(counters, gpu);
  EXPECT_NEAR(cached, tiles_ms(counters, gpu), 1e-3 * cached);
}

TEST(CountedTime, TakesWhatNoCountShowsFromTheModel) {
  const GpuModel gpu = small_gpu();
  const LaunchCounters counters = three_and_four();
  KernelExtent extent;
  EXPECT_DOUBLE_EQ(tiles_ms(counters, gpu, extent, 2), 10);
  extent.hidden = 0.5;  // of the way from 5 to 3 + 4
  EXPECT_DOUBLE_EQ(tiles_ms(counters, gpu, extent), 6);
  extent.wave_factor = 1.5;
  EXPECT_DOUBLE_EQ(tiles_ms(counters, gpu, extent), 9);
  extent.stall_ms = 2;
  EXPECT_DOUBLE_EQ(tiles_ms(counters, gpu, extent), 11);
  KernelExtent of_operands;
  of_operands.operands_ms = 12;  // beside 3 and 4
  EXPECT_DOUBLE_EQ(tiles_ms(counters, gpu, of_operands), 13);
}

// --- A schedule's kernels ---

struct TimedCase {
  Problem problem;
  Sizes sizes = {4, 16, 16, 4096, 4096};
  Sizes run = {1, 1, 1, 1024, 1024};
  Target target = *target_from_name("sm_90a");
  GpuModel gpu = *gpu_model("sm_90a");

  double ms(const std::vector<KernelCounters>& kernels, const Schedule& schedule) const {
    return counted_ms(kernels, {problem, run, problem, sizes}, schedule, target, gpu);
  }
};

TimedCase backward_case(bool causal) {
  TimedCase c;
  c.problem.pass = Pass::kBackward;
  c.problem.head_dim = c.problem.head_dim_v = 128;
  c.problem.causal = causal;
  return c;
}

Schedule backward_schedule(const TimedCase& c, const char* dq_mode) {
  const Result<Schedule> schedule =
      schedule_for(c.problem, c.target,
                   {{"dq_mode", dq_mode},
                    {"dkdv", {{"block_rows", 128}, {"block_cols", 64}, {"stages", 2}}},
                    {"hopper", {{"persistent", false}}}});
  EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
  return schedule.ok() ? *schedule : Schedule{};
}

// What ordered sums take longer than atomic ones, with the same counts.
double turns_ms(const TimedCase& c) {
  const std::vector<KernelCounters> kernels = {{"lssar_backward_dkdv", three_and_four()}};
  return c.ms(kernels, backward_schedule(c, "ordered")) -
         c.ms(kernels, backward_schedule(c, "atomic"));
}

TEST(CountedTime, OfOrderedSumsHasTheModelsTurns) {
  for (const bool causal : {false, true}) {
    const TimedCase c = backward_case(causal);
    const double model =
        estimate_cost(c.problem, c.sizes, backward_schedule(c, "ordered"), c.target, c.gpu)
            .stall_ms -
        estimate_cost(c.problem, c.sizes, backward_schedule(c, "atomic"), c.target, c.gpu).stall_ms;
    EXPECT_GT(model, 0);
    EXPECT_NEAR(turns_ms(c), model, 1e-6 * model) << "causal = " << causal;
  }
}

TEST(CountedTime, OfTurnsIsTheirClocksForEachTileOfAnSm) {
  const TimedCase c = backward_case(false);
  const double tiles = 64.0 * (4096 / 128) * (4096 / 64);
  const double clocks = c.gpu.constants.ordered_clocks * tiles / c.gpu.num_sms;
  const double ms = clocks / (c.gpu.clock_ghz * c.gpu.sustained * 1e6);
  EXPECT_GE(turns_ms(c), ms);
  EXPECT_LE(turns_ms(c), 1.1 * ms);  // the last blocks leave SMs idle
}

TEST(CountedTime, OfTurnsIsHalfWhereHalfOfTheTilesAreMasked) {
  const double share = turns_ms(backward_case(true)) / turns_ms(backward_case(false));
  EXPECT_GT(share, 0.5);
  EXPECT_LT(share, 0.6);
}

TEST(CountedTime, IsScaledByTurnsOfLoopsAndByRows) {
  TimedCase c = backward_case(false);
  c.gpu.launch_us = 0;
  const Schedule schedule = backward_schedule(c, "split");
  const auto ms = [&](const char* kernel) { return c.ms({{kernel, three_and_four()}}, schedule); };
  const double rows = ms("lssar_backward_rows"), tiles = ms("lssar_backward_dq");
  c.sizes.seq_q = c.sizes.seq_k = 2 * 4096;
  EXPECT_DOUBLE_EQ(ms("lssar_backward_rows"), 2 * rows);
  EXPECT_GT(ms("lssar_backward_dq"), 3.9 * tiles);
  EXPECT_LT(ms("lssar_backward_dq"), 4.1 * tiles);
}

// The kernel that orders sequences is one block, however many rows there are.
TEST(CountedTime, OfSequencesIsScaledByAllOfThem) {
  Problem problem;
  problem.varlen = true;
  const Target target = *target_from_name("sm_80");
  GpuModel gpu = *gpu_model("sm_80");
  gpu.launch_us = 0;
  const Schedule schedule = default_schedule(problem, target);
  const SequenceLengths run = {{512, 100}, {512, 100}};
  SequenceLengths twice = run;
  twice.add(512, 512);
  twice.add(100, 100);
  const auto ms = [&](const char* kernel, const SequenceLengths& lengths) {
    const Sizes run_sizes = sizes_of_call(run, 64, 64), sizes = sizes_of_call(lengths, 64, 64);
    return counted_ms({{kernel, three_and_four()}},
                      {problem, run_sizes, problem, sizes, run, lengths}, schedule, target, gpu);
  };
  EXPECT_DOUBLE_EQ(ms("lssar_key_norms", twice), 2 * ms("lssar_key_norms", run));
  EXPECT_DOUBLE_EQ(ms("lssar_order_sequences", twice), ms("lssar_order_sequences", run));
  const double forward = ms("lssar_forward", twice) / ms("lssar_forward", run);
  EXPECT_GT(forward, 1.5);
  EXPECT_LT(forward, 2.1);
}

TEST(CountedTime, FindsEveryKernelThatWalksOverTiles) {
  const std::set<std::string> on_rows = {"lssar_key_norms", "lssar_backward_rows",
                                         "lssar_backward_dq_finish"};
  for (const char* target_name : {"sm_80", "sm_90a"}) {
    const Target target = *target_from_name(target_name);
    const GpuModel gpu = *gpu_model(target_name);
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward, Pass::kRowSums,
                            Pass::kWeightedSum}) {
      Problem problem;
      problem.causal = true;
      problem.pass = pass;
      CostModel model(problem, {1, 1, 1, 512, 512}, target, gpu);
      const SearchSpace space = search_space(problem, target, Determinism::kAny);
      ASSERT_FALSE(space.algorithms.empty());
      for (const Algorithm& algorithm : space.algorithms) {
        const Schedule& schedule = algorithm.schedule;
        const Result<KernelSource> source = emit_kernel(problem, schedule, target);
        ASSERT_TRUE(source.ok()) << source.status().to_string();
        std::set<std::string> wanted, found;
        for (const LaunchStep& step : source->steps) {
          if (on_rows.count(step.entry) == 0) wanted.insert(step.entry);
        }
        for (const KernelExtent& extent : model.extents(schedule))
          found.insert(std::string(extent.entry));
        EXPECT_EQ(found, wanted) << to_string(schedule);
      }
    }
  }
}

}  // namespace
}  // namespace lssar
