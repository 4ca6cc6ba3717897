// The cost model beside times of an H100: docs/cost_model.md, "Beside measured times".
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/model/cost_model.h"

namespace lssar {
namespace {

// Fields of a schedule that differ from the series' standard, and the milliseconds of a call: bf16,
// p = 15, 2 x 16 heads, 8192 queries and keys, no mask, Gaussian data, run-time lengths.
struct Measured {
  const char* difference;
  double ms;
};

struct Series {
  Pass pass;
  int dim;
  double least_correlation;
  const char* standard;  // the default when it was measured
  // Taken in turns. Three at d 128 are left out, because their kernels changed and spill now.
  std::vector<Measured> times;
};

const std::vector<Series>& all_series() {
  static const std::vector<Series> all = {
      {Pass::kForward,
       128,
       0.76,
       R"({"forward": {"block_rows": 128, "block_cols": 128, "stages": 4}, "hopper": {"cluster": 1,
           "evaluator": "linear", "head_group": 8, "overlap": true, "persistent": true,
           "ping_pong": true, "queries_in_registers": false, "score_cols": 160, "stagger": 1,
           "store_path": "tma", "sum_path": "registers", "weights_from": "registers"}})",
       {
           {R"({})", 3.318},
           {R"({"hopper": {"ping_pong": false}})", 3.527},
           {R"({"hopper": {"overlap": false, "ping_pong": false}})", 3.67},
           {R"({"hopper": {"ping_pong": false}})", 3.526},
           {R"({"hopper": {"overlap": false}})", 3.382},
           {R"({"hopper": {"cluster": 2}})", 3.419},
           {R"({"hopper": {"cluster": 4}})", 3.83},
           {R"({"hopper": {"persistent": false}})", 3.4},
           {R"({"hopper": {"score_cols": 64}})", 3.679},
           {R"({"hopper": {"score_cols": 96}})", 3.496},
           {R"({"hopper": {"score_cols": 128}})", 3.35},
           {R"({"forward": {"stages": 3}, "hopper": {"score_cols": 192}})", 3.363},
           {R"({"forward": {"stages": 2}})", 3.944},
           {R"({"forward": {"stages": 3}})", 3.345},
           {R"({"forward": {"block_cols": 48}})", 4.094},
           {R"({"forward": {"block_cols": 64}})", 3.737},
           {R"({"forward": {"block_cols": 80}})", 3.538},
           {R"({"forward": {"block_cols": 96}})", 3.46},
           {R"({"forward": {"block_cols": 112}})", 3.436},
           {R"({"forward": {"block_cols": 144}})", 3.307},
           {R"({"hopper": {"evaluator": "full"}})", 4.097},
           {R"({"hopper": {"evaluator": "short"}})", 3.604},
           {R"({"hopper": {"store_path": "registers"}})", 3.325},
           {R"({"hopper": {"head_group": 1}})", 3.307},
           {R"({"hopper": {"head_group": 64}})", 3.418},
           {R"({"softplus_degree": 5})", 3.332},
           {R"({"forward": {"block_cols": 80, "block_rows": 192, "stages": 2},
                "hopper": {"ping_pong": false, "score_cols": 96}})",
            4.334},
           {R"({"forward": {"block_cols": 96, "block_rows": 192, "stages": 3},
                "hopper": {"score_cols": 96}})",
            5.133},
           {R"({"forward": {"block_rows": 64, "min_blocks": 2, "stages": 2},
                "hopper": {"ping_pong": false, "score_cols": 128}})",
            3.782},
           {R"({"forward": {"block_cols": 64, "stages": 10}, "hopper": {"score_cols": 64,
                "stagger": 2}})",
            3.714},
           {R"({"forward": {"block_cols": 64, "stages": 10}, "hopper": {"score_cols": 64,
                "stagger": 4}})",
            3.576},
           {R"({"forward": {"block_cols": 64, "stages": 10}, "hopper": {"ping_pong": false,
                "score_cols": 64, "stagger": 4}})",
            3.702},
           {R"({"hopper": {"weights_from": "shared"}})", 3.425},
           {R"({"skip_tiles": true})", 3.813},
           {R"({"hopper": {"consumer_registers": 232, "producer_registers": 40}})", 3.333},
       }},
      {Pass::kForward,
       64,
       0.74,
       R"({"forward": {"block_rows": 128, "block_cols": 128, "stages": 10}, "hopper": {"cluster": 1,
           "evaluator": "linear", "head_group": 8, "overlap": true, "persistent": true,
           "ping_pong": true, "queries_in_registers": false, "score_cols": 160, "stagger": 1,
           "store_path": "tma", "sum_path": "registers", "weights_from": "registers"}})",
       {
           {R"({})", 2.766},
           {R"({"hopper": {"ping_pong": false}})", 2.781},
           {R"({"hopper": {"overlap": false, "ping_pong": false}})", 2.717},
           {R"({"hopper": {"ping_pong": false}})", 2.785},
           {R"({"hopper": {"overlap": false}})", 2.706},
           {R"({"hopper": {"cluster": 2}})", 2.753},
           {R"({"hopper": {"cluster": 4}})", 3.074},
           {R"({"hopper": {"persistent": false}})", 2.812},
           {R"({"hopper": {"score_cols": 64}})", 2.968},
           {R"({"hopper": {"score_cols": 96}})", 2.803},
           {R"({"hopper": {"score_cols": 128}})", 2.7},
           {R"({"forward": {"stages": 8}, "hopper": {"score_cols": 192}})", 2.625},
           {R"({"forward": {"stages": 2}})", 3.119},
           {R"({"forward": {"stages": 3}})", 2.806},
           {R"({"forward": {"block_cols": 48}})", 3.397},
           {R"({"forward": {"block_cols": 64}})", 3.13},
           {R"({"forward": {"block_cols": 80}})", 2.996},
           {R"({"forward": {"block_cols": 96}})", 2.883},
           {R"({"forward": {"block_cols": 112}})", 2.828},
           {R"({"forward": {"block_cols": 144}})", 2.658},
           {R"({"forward": {"block_cols": 160}})", 2.683},
           {R"({"forward": {"block_cols": 176, "stages": 9}})", 2.634},
           {R"({"hopper": {"evaluator": "full"}})", 3.415},
           {R"({"hopper": {"evaluator": "short"}})", 3.059},
           {R"({"hopper": {"store_path": "registers"}})", 2.737},
           {R"({"hopper": {"head_group": 1}})", 2.733},
           {R"({"hopper": {"head_group": 64}})", 2.837},
           {R"({"softplus_degree": 5})", 2.728},
           {R"({"forward": {"block_cols": 80, "block_rows": 192, "stages": 2},
                "hopper": {"ping_pong": false, "score_cols": 96}})",
            3.247},
           {R"({"forward": {"block_cols": 96, "block_rows": 192, "stages": 3},
                "hopper": {"score_cols": 96}})",
            2.835},
           {R"({"forward": {"block_rows": 64, "min_blocks": 2, "stages": 2},
                "hopper": {"ping_pong": false, "score_cols": 128}})",
            2.917},
           {R"({"forward": {"block_cols": 64}, "hopper": {"score_cols": 64, "stagger": 2}})",
            3.035},
           {R"({"forward": {"block_cols": 64}, "hopper": {"score_cols": 64, "stagger": 4}})",
            2.855},
           {R"({"forward": {"block_cols": 64}, "hopper": {"ping_pong": false, "score_cols": 64,
                "stagger": 4}})",
            2.961},
           {R"({"forward": {"block_cols": 96, "stages": 12}, "hopper": {"score_cols": 96,
                "stagger": 4}})",
            2.659},
           {R"({"forward": {"stages": 8}, "hopper": {"weights_from": "shared"}})", 2.932},
           {R"({"skip_tiles": true})", 3.089},
           {R"({"hopper": {"queries_in_registers": true, "store_path": "registers"}})", 2.744},
           {R"({"hopper": {"consumer_registers": 232, "producer_registers": 40}})", 2.768},
       }},
      {Pass::kBackward,
       128,
       0.9,
       R"({"dkdv": {"block_rows": 128, "block_cols": 80, "stages": 3}, "dq": {"block_rows": 128,
           "block_cols": 80, "stages": 4}, "dq_mode": "split", "hopper": {"evaluator": "linear",
           "head_group": 8, "overlap": true, "persistent": false, "ping_pong": true,
           "sum_path": "registers"}})",
       {
           {R"({})", 7.021},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"ping_pong": false,
                "sum_path": "tma"}})",
            5.827},
           {R"({"dkdv": {"block_cols": 64}, "dq": {"block_cols": 64, "block_rows": 64, "stages": 2},
                "dq_mode": "ordered", "hopper": {"ping_pong": false}})",
            9.226},
           {R"({})", 7.063},
           {R"({"hopper": {"ping_pong": false}})", 7.081},
           {R"({"hopper": {"overlap": false, "ping_pong": false}})", 7.821},
           {R"({"hopper": {"persistent": true}})", 7.272},
           {R"({})", 7.22},
           {R"({"dkdv": {"block_cols": 64}})", 7.47},
           {R"({"dkdv": {"block_cols": 96, "stages": 2}})", 9.156},
           {R"({"dkdv": {"block_cols": 48}})", 7.738},
           {R"({"dq": {"block_cols": 64}})", 7.835},
           {R"({"dq": {"block_cols": 96, "stages": 3}})", 7.327},
           {R"({"dq": {"block_cols": 128, "stages": 2}})", 10.073},
           {R"({"dkdv": {"stages": 2}, "dq": {"stages": 2}})", 8.688},
           {R"({"hopper": {"head_group": 1}})", 7.312},
           {R"({"hopper": {"head_group": 64}})", 7.269},
           {R"({"hopper": {"evaluator": "full"}})", 8.188},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"ping_pong": false}})",
            6.989},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"overlap": false, "ping_pong": false,
                "sum_path": "tma"}})",
            6.114},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"head_group": 1, "ping_pong": false,
                "sum_path": "tma"}})",
            6.083},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"head_group": 64, "ping_pong": false,
                "sum_path": "tma"}})",
            6.153},
           {R"({"dkdv": {"block_cols": 64, "stages": 2}, "dq": {"block_cols": 64, "block_rows": 64,
                "stages": 2}, "dq_mode": "atomic", "hopper": {"evaluator": "full",
                "ping_pong": false, "sum_path": "tma"}})",
            6.537},
           {R"({"dkdv": {"block_cols": 64}, "dq": {"block_cols": 64, "block_rows": 64, "stages": 2},
                "dq_mode": "ordered", "hopper": {"head_group": 64, "ping_pong": false}})",
            9.686},
           {R"({"dkdv": {"block_cols": 64}, "dq": {"block_cols": 64, "block_rows": 64, "stages": 2},
                "dq_mode": "ordered", "hopper": {"head_group": 1, "ping_pong": false}})",
            9.419},
       }},
  };
  return all;
}

std::vector<CostEstimate> estimates(const Series& series) {
  const Target target = *target_from_name("sm_90a");
  const GpuModel gpu = *gpu_model("sm_90a", "NVIDIA H100 80GB HBM3");
  const Sizes sizes = {2, 16, 16, 8192, 8192};
  Problem problem;
  problem.pass = series.pass;
  problem.head_dim = problem.head_dim_v = series.dim;
  std::vector<CostEstimate> all;
  for (const Measured& one : series.times) {
    nlohmann::json fields = nlohmann::json::parse(series.standard);
    fields.merge_patch(nlohmann::json::parse(one.difference));
    const auto schedule = schedule_from_json(fields, default_schedule(problem, target));
    EXPECT_TRUE(schedule.ok()) << one.difference << schedule.status().to_string();
    if (schedule.ok()) all.push_back(estimate_cost(problem, sizes, *schedule, target, gpu));
  }
  return all;
}

TEST(MeasuredTimes, TheModelRanksThemAsWellAsItDid) {
  for (const Series& series : all_series()) {
    std::vector<double> model, measured;
    for (const CostEstimate& one : estimates(series)) model.push_back(one.ms);
    for (const Measured& one : series.times) measured.push_back(one.ms);
    ASSERT_EQ(model.size(), measured.size());
    EXPECT_GT(rank_correlation(model, measured), series.least_correlation)
        << pass_name(series.pass) << " d " << series.dim;
  }
}

// A search leaves out what cannot be as fast as the best by its bound.
TEST(MeasuredTimes, NoneIsBelowItsBound) {
  for (const Series& series : all_series()) {
    const std::vector<CostEstimate> model = estimates(series);
    ASSERT_EQ(model.size(), series.times.size());
    for (size_t i = 0; i < model.size(); ++i)
      EXPECT_LT(model[i].lower_bound_ms, series.times[i].ms) << series.times[i].difference;
  }
}

}  // namespace
}  // namespace lssar
