// Cost model: how long a schedule should take, resource by resource, without running it.
// The terms, their sources and the calibration are in docs/tuning.md.
//
// Threads: plain values and pure functions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/tuning_record.h"
#include "base/status.h"
#include "codegen/kernel.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// What a GPU can do at most. Rates are per SM and clock unless they say otherwise.
struct GpuModel {
  std::string name;  // "H200 SXM"
  std::string target;
  int num_sms = 0;
  double clock_ghz = 0;     // boost
  double sustained = 0.8;   // of the clock, under dense tensor work
  double tensor_flop = 0;   // dense fp16/bf16, 2 per multiply-add
  double special = 16;      // special functions
  double issue_slots = 128; // instruction lanes
  double shared_bytes = 128;
  double l2_gbps = 0;       // GB/s, whole GPU
  double dram_gbps = 0;
  double l2_bytes = 0;
  double launch_us = 3;     // of one kernel, beyond its work
};

// By target name, for predictions without a GPU: the usual card of that architecture (A100 for
// sm_80, H200 for sm_90a, ...). `num_sms` and `clock_ghz` of a real one override it where > 0.
Result<GpuModel> gpu_model(const std::string& target, const std::string& device_name = "",
                           int num_sms = 0, double clock_ghz = 0);

enum class Resource { kTensor, kSpecial, kIssue, kShared, kL2, kDram };
inline constexpr int kNumResources = 6;
const char* resource_name(Resource resource);  // "tensor", "special functions", ...

struct CostEstimate {
  double ms = 0;           // terms combined, waves and launches included
  double lower_bound_ms = 0;  // the largest term at the nominal rate and full SMs: nothing is faster
  std::array<double, kNumResources> terms_ms = {};  // each as if it were alone
  double wave_factor = 1;  // >= 1: SMs idle in the last wave
  double launch_ms = 0;
  int blocks_per_sm = 1;
  Resource limit = Resource::kTensor;  // the largest term
};

// REQUIRES: validate(schedule, problem, target).ok().
CostEstimate estimate_cost(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                           const Target& target, const GpuModel& gpu);

// Factors on each term, fitted to measured records (least squares on the logarithm of the time);
// all 1 where there are too few (< 8).
struct Calibration {
  std::array<double, kNumResources> factor = {1, 1, 1, 1, 1, 1};
  int records = 0;
  double rank_correlation = 0;  // Spearman's, of estimates and measured times; NaN below 3 records
};
Calibration calibrate(const std::vector<TuningRecord>& measured, const GpuModel& gpu);
CostEstimate apply(const CostEstimate& estimate, const Calibration& calibration);

// Spearman's rank correlation, mean ranks for ties. NaN below 3 pairs.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

nlohmann::json to_json(const CostEstimate& estimate);

}  // namespace lssar
