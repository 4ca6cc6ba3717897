// Assumed constants of the cost model: within their ranges the defaults keep their places.
// docs/cost_model.md has the ranges.
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/model/cost_model.h"

namespace lssar {
namespace {

struct Range {
  const char* name;
  double low, high;
  std::function<void(GpuModel&, double)> set;
};

Range range_of(const char* name, double low, double high, double CostConstants::*member) {
  return {name, low, high,
          [member](GpuModel& gpu, double value) { gpu.constants.*member = value; }};
}

const std::vector<Range>& ranges() {
  using C = CostConstants;
  static const std::vector<Range> all = {
      {"l2", 3500, 5120, [](GpuModel& gpu, double value) { gpu.l2_gbps = value * gpu.clock_ghz; }},
      {"launch_us", 1, 5, [](GpuModel& gpu, double value) { gpu.launch_us = value; }},
      range_of("sum_cost", 1, 3, &C::sum_cost),
      range_of("block_clocks", 2500, 6000, &C::block_clocks),
      range_of("load_clocks", 500, 1500, &C::load_clocks),
      range_of("ring_clocks", 800, 2500, &C::ring_clocks),
      range_of("hidden_alone", 0.5, 1, &C::hidden_alone),
      range_of("stream_power", 2, 5, &C::stream_power),
      range_of("cluster_wait", 0.02, 0.12, &C::cluster_wait),
      range_of("store_share", 0.7, 1, &C::store_share),
      range_of("ordered_clocks", 1000, 3000, &C::ordered_clocks),
      range_of("spilled_register", 0.005, 0.05, &C::spilled_register),
      range_of("usable_l2", 0.5, 0.9, &C::usable_l2),
      range_of("dram_share", 0.8, 0.95, &C::dram_share),
  };
  return all;
}

struct ConstantCase {
  Problem problem;
  Sizes sizes = {4, 16, 16, 8192, 8192};
  Target target = *target_from_name("sm_90a");

  ConstantCase(Pass pass, int dim, bool causal) {
    problem.pass = pass;
    problem.head_dim = problem.head_dim_v = dim;
    problem.causal = causal;
  }
  double ms(const Schedule& schedule, const GpuModel& gpu) const {
    return estimate_cost(problem, sizes, schedule, target, gpu).ms;
  }
};

void expect_places(const GpuModel& gpu) {
  struct Other {
    int dim, cols, stages, score_cols;
  };
  for (const bool causal : {false, true}) {
    for (const Other& other :
         {Other{64, 64, 10, 160}, Other{64, 128, 10, 64}, Other{128, 64, 4, 160},
          Other{128, 96, 4, 160}, Other{128, 128, 4, 64}, Other{256, 48, 5, 64}}) {
      const ConstantCase c(Pass::kForward, other.dim, causal);
      const Schedule standard = default_schedule(c.problem, c.target);
      Schedule schedule = standard;
      schedule.forward.block_cols = other.cols;
      schedule.forward.stages = other.stages;
      schedule.hopper.score_cols = other.score_cols;
      EXPECT_LT(c.ms(standard, gpu), c.ms(schedule, gpu))
          << "d " << other.dim << " " << other.cols << " " << other.score_cols;
    }
    for (const int dim : {64, 128}) {
      const ConstantCase c(Pass::kBackward, dim, causal);
      EXPECT_LT(c.ms(default_schedule(c.problem, c.target, DqMode::kSplit), gpu),
                c.ms(default_schedule(c.problem, c.target, DqMode::kOrdered), gpu))
          << "d " << dim;
    }
  }
}

TEST(Constants, DefaultsKeepTheirPlacesInTheRanges) {
  const GpuModel usual = *gpu_model("sm_90a");
  expect_places(usual);
  for (const Range& range : ranges()) {
    for (const double value : {range.low, range.high}) {
      SCOPED_TRACE(testing::Message() << range.name << " " << value);
      GpuModel gpu = usual;
      range.set(gpu, value);
      expect_places(gpu);
    }
  }
}

// Every constant is used: the estimate of some kernel changes with it.
TEST(Constants, EachChangesAnEstimate) {
  const GpuModel usual = *gpu_model("sm_90a");
  for (const Range& range : ranges()) {
    bool changes = false;
    for (const Pass pass : {Pass::kForward, Pass::kBackward})
      for (const DqMode mode : {DqMode::kSplit, DqMode::kOrdered}) {
        ConstantCase c(pass, 128, true);
        Schedule schedule = default_schedule(c.problem, c.target, mode);
        GpuModel gpu = usual;
        range.set(gpu, range.high);
        changes |= c.ms(schedule, gpu) != c.ms(schedule, usual);
        const Schedule portable =
            schedule_for(c.problem, c.target, {{"variant", "portable"}, {"dq_mode", "split"}})
                .value();
        changes |= c.ms(portable, gpu) != c.ms(portable, usual);
        schedule.forward = {64, 160, 2, 1};  // a stream alone that spills
        schedule.block_dv = 256;
        schedule.hopper.ping_pong = false;
        schedule.hopper.cluster = 2;
        changes |= c.ms(schedule, gpu) != c.ms(schedule, usual);
        c.sizes = {16, 64, 64, 65536, 65536};  // more keys than the L2 holds
        schedule.hopper.head_group = 64;
        changes |= c.ms(schedule, gpu) != c.ms(schedule, usual);
      }
    EXPECT_TRUE(changes) << range.name;
  }
}

}  // namespace
}  // namespace lssar
