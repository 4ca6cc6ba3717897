// Cost model: how long a schedule should take, resource by resource, without running it.
// The terms, their sources and the calibration are in docs/cost_model.md.
//
// Threads: plain values and pure functions.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/model/gpu_model.h"
#include "autotune/table/tuning_record.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "codegen/target.h"

namespace lssar {

enum class Resource { kTensor, kSpecial, kIssue, kShared, kL2, kDram };
inline constexpr int kNumResources = 6;
const char* resource_name(Resource resource);  // "tensor", "special functions", ...

struct CostEstimate {
  double ms = 0;  // terms combined, waves and launches included
  double lower_bound_ms =
      0;  // the largest term at the nominal rate and full SMs: nothing is faster
  std::array<double, kNumResources> terms_ms = {};  // each as if it were alone
  double wave_factor = 1;  // >= 1: SMs idle at the end; of the kernel that takes longest
  double stall_ms = 0;     // what nothing hides: starts and ends of blocks, loads that come late
  double launch_ms = 0;
  // What the schedule costs another pass, and no member above includes: saving_x_ms, if the caller
  // has put it here.
  double elsewhere_ms = 0;
  double whole_ms() const { return ms + elsewhere_ms; }
  int blocks_per_sm = 1;               // of the kernel that takes longest
  Resource limit = Resource::kTensor;  // the largest term

  bool operator==(const CostEstimate&) const = default;
};

// A kernel that walks over tiles: what a virtual device that counts its work cannot see.
struct KernelExtent {
  std::string_view entry;  // LaunchStep::entry
  double tiles = 0;        // over all blocks
  double wave_factor = 1;  // as in CostEstimate
  double hidden = 1;       // as in combine
  double operands_ms = 0;  // of the port of shared memory that products read their operands by
  double stall_ms = 0;     // as in CostEstimate
};

// Amounts of each resource per millisecond, of the whole GPU, for this variant's products: FLOP,
// special functions, instruction lanes, bytes of shared memory, of the L2, of DRAM. Terms are
// amounts over the sustained rates.
std::array<double, kNumResources> resource_rates(const GpuModel& gpu, Variant variant,
                                                 bool sustained);

// Estimates of many schedules of one problem: what they have in common is worked out once.
// Threads: one at a time.
class CostModel {
 public:
  CostModel(const Problem& problem, const Sizes& sizes, const Target& target, const GpuModel& gpu);
  ~CostModel();

  // REQUIRES: validate(schedule, problem, target).ok().
  CostEstimate estimate(const Schedule& schedule);
  // The extents of its kernels, without those on whole rows. REQUIRES: as estimate.
  std::vector<KernelExtent> extents(const Schedule& schedule);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One estimate. REQUIRES: validate(schedule, problem, target).ok().
CostEstimate estimate_cost(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                           const Target& target, const GpuModel& gpu);

// Time of a phase whose resources overlap: products (tensor cores, or shared memory that feeds
// them), special functions and instructions by the root of the sum of squares; what is not `hidden`
// (0 to 1) of the way from there to their sum is added. L2 and DRAM count where they take about as
// long.
double combine(const std::array<double, kNumResources>& terms, double hidden = 1);

// Factors on each term, fitted to the measured records of the GPU's target that are kOk (least
// squares on the logarithm of the time, with a pull towards 1, so that a term that nothing depends
// on stays as it is); all 1 where there are too few (< 8).
struct Calibration {
  std::array<double, kNumResources> factor = {1, 1, 1, 1, 1, 1};
  int records = 0;  // that were used, or would have been
  // Spearman's, of estimates with these factors and measured times: the mean over buckets by their
  // records, of those with 3 or more; NaN where there is none.
  double rank_correlation = 0;
};
Calibration calibrate(const std::vector<TuningRecord>& measured, const GpuModel& gpu);
CostEstimate apply(const CostEstimate& estimate, const Calibration& calibration);

// What X, where the backward `problem` may take it from there, costs the forward for training: the
// estimate of its default with X less that without. Backward schedules are compared with it; 0 for
// other passes, and where there is no X.
double saving_x_ms(const Problem& problem, const Sizes& sizes, const Target& target,
                   const GpuModel& gpu, const Calibration& calibration = {});

// Spearman's rank correlation, mean ranks for ties. NaN below 3 pairs.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

nlohmann::json to_json(const CostEstimate& estimate);

}  // namespace lssar
