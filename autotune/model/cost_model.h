// Cost model: how long a schedule should take, resource by resource, without running it.
// The terms, their sources and the calibration are in docs/cost_model.md.
//
// Threads: plain values and pure functions.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/model/device_model.h"
#include "autotune/table/sequence_lengths.h"
#include "autotune/table/tuning_record.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "codegen/target.h"

namespace lssar {

// On a CPU the same six mean (docs/cost_model.md): products, evaluation of scores, the work of rows
// and panels, loads that products need, bytes from the L2, and bytes from behind it.
enum class Resource { kTensor, kSpecial, kIssue, kShared, kL2, kDram };
inline constexpr int kNumResources = 6;
enum class ModelKind { kGpu, kCpu };
ModelKind model_kind(const Target& target);
// "tensor", "special functions", ...; of a CPU "products", "evaluation", ...
const char* resource_name(Resource resource, ModelKind kind = ModelKind::kGpu);

struct CostEstimate {
  double ms = 0;  // terms combined, with waves and launches
  double lower_bound_ms =
      0;  // the largest term at the nominal rate and full SMs: nothing is faster
  std::array<double, kNumResources> terms_ms = {};  // each on its own
  double wave_factor = 1;  // >= 1: idle SMs at the end; of the kernel that takes longest
  double stall_ms = 0;     // hidden by nothing: starts and ends of blocks, loads that come late
  double launch_ms = 0;
  // What the schedule costs another pass: saving_x_ms, if the caller has put it here. No member
  // above includes it.
  double elsewhere_ms = 0;
  double whole_ms() const { return ms + elsewhere_ms; }
  int blocks_per_sm = 1;               // of the kernel that takes longest
  double hidden = 1;                   // as in combine; for calibrations
  Resource limit = Resource::kTensor;  // the largest term

  bool operator==(const CostEstimate&) const = default;
};

// A kernel that walks over tiles: what a virtual device's counters cannot show.
struct KernelExtent {
  std::string_view entry;  // LaunchStep::entry
  double tiles = 0;        // over all blocks
  double wave_factor = 1;  // as in CostEstimate
  double hidden = 1;       // as in combine
  double busy = 1;         // as in combine
  double operands_ms = 0;  // shared memory's time to read the operands of products
  double stall_ms = 0;     // as in CostEstimate
};

// Amounts of each resource per millisecond, for the whole GPU and this variant's products: FLOP,
// special functions, instruction lanes, bytes of shared memory, of the L2, of DRAM. A term is an
// amount divided by its sustained rate.
std::array<double, kNumResources> resource_rates(const GpuModel& gpu, Variant variant,
                                                 bool sustained);
// The same for either kind of device. A CPU's rates are measured ones, sustained or not.
std::array<double, kNumResources> resource_rates(const DeviceModel& model, Variant variant,
                                                 bool sustained);

// The cost model's estimate with the loops of the timing model (docs/timing_model.md): the "sum of
// both".
struct SumOfBoth {
  double loops_ms = 0;  // the loops alone, with every SM at work
  double ms = 0;        // the loops, idle SMs, and all else that is in CostEstimate::ms
};
// Whether this schedule's loops add up to its time: those of a forward with wgmma, whose passes run
// one after the other. Sums of dq are not modelled well enough (docs/timing_model.md).
bool has_sum_of_both(const Problem& problem, const Schedule& schedule);

struct PassWork;  // autotune/model/kernel_work.h

// Estimates many schedules of one problem. What they have in common is computed once. With varlen
// the work of all sequences adds up, and they share the launches: `lengths` are theirs; none:
// even_lengths.
// Threads: one at a time.
class CostModel {
 public:
  CostModel(const Problem& problem, const Sizes& sizes, const Target& target,
            const DeviceModel& model, const SequenceLengths& lengths = {});
  ~CostModel();

  // REQUIRES: validate(schedule, problem, target).ok().
  CostEstimate estimate(const Schedule& schedule);
  // The same for work that was counted elsewhere, such as that of other libraries' kernels.
  // REQUIRES: a GPU's model; so does extents.
  CostEstimate estimate(const PassWork& pass, Variant variant);
  // `clocks_per_score`: what each loop of its machine code takes of an SM, in the order of the
  // code. None: there is no such sum (has_sum_of_both), or these are not its loops. REQUIRES: as
  // estimate.
  std::optional<SumOfBoth> sum_of_both(const Schedule& schedule,
                                       const std::vector<double>& clocks_per_score);
  // The extents of its kernels, except those on whole rows. REQUIRES: as estimate.
  std::vector<KernelExtent> extents(const Schedule& schedule);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One estimate. REQUIRES: validate(schedule, problem, target).ok().
CostEstimate estimate_cost(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                           const Target& target, const DeviceModel& model,
                           const SequenceLengths& lengths = {});

// Time of a phase whose resources overlap. Products (on tensor cores, or the shared memory that
// feeds them), special functions and instructions are combined as the root of the sum of squares.
// The part of the distance from there to their sum that is not `hidden` (0 to 1) is added. L2 and
// DRAM count if they take about as long. `busy`: the share of an SM's schedulers that have work;
// the others' tensor cores, special functions and issue slots are idle.
double combine(const std::array<double, kNumResources>& terms, double hidden = 1, double busy = 1);

// Factors on each term, fitted to the kOk measured records of the model's target: least squares on
// the logarithm of the time, with a pull towards 1, so that a term that nothing depends on keeps
// its factor. All 1 if there are fewer than 8 records.
struct Calibration {
  std::array<double, kNumResources> factor = {1, 1, 1, 1, 1, 1};
  int records = 0;  // records used; with too few, those that would have been
  // Spearman's rank correlation of estimates with these factors and measured times: the mean over
  // buckets with 3 or more records, weighted by records. NaN if there is no such bucket.
  double rank_correlation = 0;
};
Calibration calibrate(const std::vector<TuningRecord>& measured, const DeviceModel& model);
CostEstimate apply(const CostEstimate& estimate, const Calibration& calibration);

// What it costs the forward for training to save X, if the backward `problem` can read it: the
// estimate of its default with X minus the estimate without. Backward schedules are compared with
// this cost added. 0 for other passes, if there is no X, and on a CPU, where all have X.
double saving_x_ms(const Problem& problem, const Sizes& sizes, const Target& target,
                   const DeviceModel& device, const Calibration& calibration = {},
                   const SequenceLengths& lengths = {});

// Spearman's rank correlation, with mean ranks for ties. NaN for fewer than 3 pairs.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

nlohmann::json to_json(const CostEstimate& estimate, ModelKind kind = ModelKind::kGpu);

}  // namespace lssar
