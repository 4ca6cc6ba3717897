// How evenly the default forwards of causal problems spread over SMs: key tiles of the busiest SM
// over the mean, counted in the order of templates/tile/work_tiles.cuh.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include "autotune/model/cost_model.h"
#include "autotune/model/gpu_model.h"
#include "codegen/schedule.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr int kNumSms = 132;

struct Setting {
  int64_t heads, length;
};
// Those of docs/hopper_schedules.md and longer ones; every one has more work tiles than SMs.
constexpr Setting kSettings[] = {{64, 4096}, {16, 4096}, {64, 2048}, {16, 8192}, {16, 16384}};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Key tiles of both passes of each work tile, in the order of their numbers.
std::vector<int64_t> key_tiles_of(const Schedule& schedule, const Setting& setting) {
  const int64_t rows = schedule.forward.block_rows;
  const int64_t tiles = ceil_div(setting.length, rows);
  const int64_t group = schedule.hopper.head_group;
  std::vector<int64_t> work;
  for (int64_t first = 0; first < setting.heads; first += group) {
    for (int64_t tile = tiles - 1; tile >= 0; --tile) {
      const int64_t keys = std::min((tile + 1) * rows, setting.length);
      const int64_t both = ceil_div(keys, hopper_score_cols(Problem(), schedule)) +
                           ceil_div(keys, schedule.forward.block_cols);
      for (int64_t head = first; head < std::min(first + group, setting.heads); ++head)
        work.push_back(both);
    }
  }
  return work;
}

double busiest_over_mean(const Schedule& schedule, const Setting& setting) {
  const std::vector<int64_t> work = key_tiles_of(schedule, setting);
  std::vector<int64_t> load(kNumSms, 0);
  if (schedule.hopper.persistent && !schedule.hopper.tickets) {
    for (size_t i = 0; i < work.size(); ++i) load[i % kNumSms] += work[i];
  } else {  // whoever has time
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends(load.begin(),
                                                                            load.end());
    for (const int64_t tiles : work) {
      const int64_t end = ends.top() + tiles;
      ends.pop();
      ends.push(end);
    }
    for (int64_t& end : load) {
      end = ends.top();
      ends.pop();
    }
  }
  const auto sum = static_cast<double>(std::accumulate(load.begin(), load.end(), int64_t{0}));
  return static_cast<double>(*std::max_element(load.begin(), load.end())) * kNumSms / sum;
}

class Evenness : public testing::TestWithParam<int> {
 protected:
  Problem make_problem(Pass pass) const {
    Problem problem;
    problem.pass = pass;
    problem.head_dim = problem.head_dim_v = GetParam();
    problem.causal = true;
    return problem;
  }
  const Target target_ = *target_from_name("sm_90a");
};

TEST_P(Evenness, OfDefaultForwardsIsWithinFivePercent) {
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain}) {
    const Schedule schedule = default_schedule(make_problem(pass), target_);
    for (const Setting& setting : kSettings)
      EXPECT_LE(busiest_over_mean(schedule, setting), 1.05)
          << setting.heads << " heads of " << setting.length;
  }
}

// What the counting above would find in a grid that takes turns.
TEST_P(Evenness, OfTurnsIsNot) {
  Schedule schedule = default_schedule(make_problem(Pass::kForward), target_);
  ASSERT_TRUE(schedule.hopper.persistent);
  schedule.hopper.tickets = false;
  for (const Setting& setting : {kSettings[0], kSettings[1], kSettings[2]})
    EXPECT_GT(busiest_over_mean(schedule, setting), 1.2);
}

TEST_P(Evenness, IsWhatTheCostModelSays) {
  const Problem problem = make_problem(Pass::kForward);
  GpuModel gpu = *gpu_model("sm_90a");
  gpu.num_sms = kNumSms;
  for (const bool tickets : {true, false}) {
    Schedule schedule = default_schedule(problem, target_);
    schedule.hopper.tickets = tickets;
    for (const Setting& setting : kSettings) {
      const Sizes sizes = {1, setting.heads, setting.heads, setting.length, setting.length};
      const double counted = busiest_over_mean(schedule, setting);
      EXPECT_NEAR(estimate_cost(problem, sizes, schedule, target_, gpu).wave_factor, counted, 0.04)
          << (tickets ? "tickets, " : "turns, ") << setting.heads << " heads of " << setting.length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, Evenness, testing::Values(64, 96, 128, 192, 256),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lssar
