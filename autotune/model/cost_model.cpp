#include "autotune/model/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "autotune/model/cpu_work.h"
#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"
#include "codegen/pass_needs.h"

namespace lssar {
namespace {

using Terms = std::array<double, kNumResources>;

// What a clock of the timing model is worth, as a share of the boost clock: 1.216 GHz on an H100.
// Fitted to FlashAttention-3's forward at d 128 (tools/timing_published.py).
constexpr double kLoopClock = 1.216 / 1.83;

Terms divide(const Terms& amounts, const Terms& by) {
  Terms terms;
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = amounts[i] / by[i];
  return terms;
}

// Blocks that divide work tiles among themselves: every num_sms-th goes to an SM, in the order of
// templates/tile/work_tiles.cuh.
double dealt_factor(const KernelWork& work, int num_sms) {
  const auto sms = static_cast<size_t>(num_sms);
  const auto slices = static_cast<int64_t>(work.slices);
  const auto together = std::max<int64_t>(1, static_cast<int64_t>(work.together));
  const auto per_slice = static_cast<int64_t>(work.blocks / work.slices + 0.5);
  const double slope = per_slice > 1 ? (work.longest - work.shortest) / (per_slice - 1.0) : 0;
  std::vector<double> load(sms, 0.0);
  double sum = 0;
  size_t sm = 0;
  for (int64_t first = 0; first < slices; first += together) {
    const int64_t size = std::min(together, slices - first);
    for (int64_t tile = 0; tile < per_slice; ++tile) {
      const double num_tiles = work.longest - slope * static_cast<double>(tile);
      sum += num_tiles * static_cast<double>(size);
      for (int64_t slice = 0; slice < size; ++slice) {
        load[sm] += num_tiles;
        if (++sm == sms) sm = 0;
      }
    }
  }
  return sum > 0 ? *std::max_element(load.begin(), load.end()) * num_sms / sum : 1;
}

// How much longer the busiest SM works than the mean, if blocks are not dealt out one by one.
double even_factor(const KernelWork& work, int num_sms) {
  const double per_sm = work.blocks / num_sms;
  const double mean = (work.longest + work.shortest) / 2;
  const double ratio = mean > 0 ? work.longest / mean : 1;
  // Equal tiles come in whole waves. Unequal ones are taken when an SM has time, and level out
  // except at the end. The end is long if the last slices have too few tiles for all SMs.
  const double spread = ratio - 1;
  const double even = std::ceil(per_sm) / per_sm - 1;
  const double last = work.together * work.blocks / work.slices / num_sms;
  const double end = work.is_dealt    ? 1.0
                     : work.is_sorted ? 0.05 + 1.1 * std::max(0.0, 1 - last)
                                      : 0.7;
  return std::max(1 + (1 - spread) * even + spread * end / per_sm, ratio / per_sm);
}

struct KernelTime {
  double ms = 0, combined = 0, stall = 0, lower_bound = 0, wave = 1;
  Terms terms = {};
};

// Amounts per millisecond of the whole GPU, for one variant's products.
struct Rates {
  Terms sustained, nominal;

  Rates(const GpuModel& gpu, Variant variant)
      : sustained(resource_rates(gpu, variant, true)),
        nominal(resource_rates(gpu, variant, false)) {}
};

KernelTime time_of(const KernelWork& work, double wave, const Rates& rates, const GpuModel& gpu) {
  const double clocks_per_ms = gpu.clock_ghz * 1e6 * gpu.sustained;
  KernelTime time;
  time.wave = wave;
  for (const Phase& phase : work.phases) {
    const Terms terms = divide(phase.amount, rates.sustained);
    const double combined = combine(terms, work.hidden, work.busy) * work.spill_factor;
    for (size_t i = 0; i < terms.size(); ++i) time.terms[i] += terms[i];
    const Terms least = divide(phase.amount, rates.nominal);
    time.lower_bound += *std::max_element(least.begin(), least.end());
    time.combined += combined;
    // A load that is requested `depth` tiles ahead is late by the time it takes beyond these tiles.
    // Times scatter, so a few loads are late at any depth.
    const double num_tiles = phase.tiles / gpu.num_sms / work.blocks_per_sm;  // of a block's share
    if (num_tiles <= 0) continue;
    const double clocks = combined * clocks_per_ms / num_tiles;
    const double late = work.load_clocks * std::exp(-2 * phase.depth * clocks / work.load_clocks);
    time.stall += (late + work.turn_clocks) * num_tiles / clocks_per_ms;
  }
  time.stall += work.block_clocks * work.blocks / gpu.num_sms / clocks_per_ms;
  time.combined *= time.wave;
  time.stall *= time.wave;
  time.ms = time.combined + time.stall;
  return time;
}

// Kernels of the same schedule for other sequences are launched together. Each has the same phases.
void add_kernel(const KernelWork& work, KernelWork& all) {
  for (size_t i = 0; i < all.phases.size(); ++i) {
    Phase& phase = all.phases[i];
    for (size_t j = 0; j < phase.amount.size(); ++j) phase.amount[j] += work.phases[i].amount[j];
    phase.operand_bytes += work.phases[i].operand_bytes;
    phase.tiles += work.phases[i].tiles;
    phase.scores += work.phases[i].scores;
  }
  all.blocks += work.blocks;
  all.slices += work.slices;
  all.together += work.together;
  if (work.blocks <= 0) return;
  all.longest = std::max(all.longest, work.longest);
  all.shortest = std::min(all.shortest, work.shortest);
}

}  // namespace

ModelKind model_kind(const Target& target) {
  return target.is_cpu() ? ModelKind::kCpu : ModelKind::kGpu;
}

const char* resource_name(Resource resource, ModelKind kind) {
  if (kind == ModelKind::kCpu) return cpu_resource_name(resource);
  switch (resource) {
    case Resource::kTensor:
      return "tensor";
    case Resource::kSpecial:
      return "special functions";
    case Resource::kIssue:
      return "instruction slots";
    case Resource::kShared:
      return "shared memory";
    case Resource::kL2:
      return "L2";
    case Resource::kDram:
      return "DRAM";
  }
  return "?";
}

std::array<double, kNumResources> resource_rates(const GpuModel& gpu, Variant variant,
                                                 bool sustained) {
  const double share = sustained ? gpu.sustained : 1;
  const double clocks = gpu.clock_ghz * 1e6 * share;  // per ms
  const double sm_clocks = clocks * gpu.num_sms;
  const double mma = variant == Variant::kHopper ? 1 : gpu.mma_sync;
  return {sm_clocks * gpu.tensor_flop * mma,
          sm_clocks * gpu.special,
          sm_clocks * gpu.issue_slots,
          sm_clocks * gpu.shared_bytes,
          gpu.l2_gbps * 1e6 * share,
          gpu.dram_gbps * 1e6 * (sustained ? gpu.constants.dram_share : 1)};
}

std::array<double, kNumResources> resource_rates(const DeviceModel& model, Variant variant,
                                                 bool sustained) {
  const CpuModel* const cpu = cpu_of(model);
  return cpu != nullptr ? cpu_resource_rates(*cpu)
                        : resource_rates(*gpu_of(model), variant, sustained);
}

// Shared memory feeds the tensor cores while they work, so the longer of the two counts. Threads
// that do not compute read L2 and DRAM ahead. So the result is almost the maximum of their terms
// and of the rest. It is a smooth maximum, so that a term counts before it becomes the largest.
//
// Each scheduler has its own tensor core, special functions and issue slots. An SM's schedulers
// share the rest.
double combine(const Terms& terms, double hidden, double busy) {
  const auto term = [&](Resource resource) { return terms[static_cast<size_t>(resource)]; };
  const double product = std::max(term(Resource::kTensor) / busy, term(Resource::kShared));
  const double special = term(Resource::kSpecial) / busy, issue = term(Resource::kIssue) / busy;
  const double root = std::hypot(product, special, issue);
  const double compute = root + (1 - hidden) * (product + special + issue - root);
  const double l2 = term(Resource::kL2), dram = term(Resource::kDram);
  const double largest = std::max({compute, l2, dram});
  if (largest <= 0) return 0;
  constexpr double kPower = 8;
  constexpr double kNothing = 1.0 / 16384;  // its power is lost in a sum of 1 and more
  double sum = 0;
  for (const double time : {compute, l2, dram}) {
    const double share = time / largest;
    if (share > kNothing) sum += share < 1 ? std::pow(share, kPower) : 1;
  }
  return sum > 1 ? largest * std::pow(sum, 1 / kPower) : largest;
}

struct CostModel::State {
  const Problem problem;
  const Target target;
  const DeviceModel model;
  const GpuModel gpu;  // without meaning if the model is a CPU's
  const Rates portable, hopper;
  const CallParts parts;                          // the one with the most work first
  std::map<std::array<double, 5>, double> dealt;  // factors, by their arguments

  State(const Problem& p, const Sizes& sizes, const SequenceLengths& lengths, const Target& t,
        const DeviceModel& m)
      : problem(p),
        target(t),
        model(m),
        gpu(gpu_of(m) != nullptr ? *gpu_of(m) : GpuModel()),
        portable(gpu, Variant::kPortable),
        hopper(gpu, Variant::kHopper),
        parts(parts_of_call(problem, sizes, lengths)) {}

  const Rates& rates(Variant variant) const {
    return variant == Variant::kHopper ? hopper : portable;
  }

  PassWork work(const Schedule& schedule) const {
    const auto of_part = [&](CallPart& part) {
      return work_of(problem, part.sizes, schedule, target, gpu, part.figures);
    };
    PassWork all = of_part(*parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) {
      const PassWork part = of_part(*parts[i]);
      for (size_t j = 0; j < all.kernels.size(); ++j) add_kernel(part.kernels[j], all.kernels[j]);
      all.row_bytes += part.row_bytes;
    }
    if (!problem.varlen) return all;
    ++all.launches;  // lssar_order_sequences
    for (KernelWork& kernel : all.kernels) kernel.is_sorted = true;
    return all;
  }

  double wave_factor(const KernelWork& work) {
    constexpr double kMostDealt = 8192;  // beyond it differences are small and counting slow
    if (work.blocks <= 0) return 1;
    if (!work.is_dealt || work.blocks > kMostDealt) return even_factor(work, gpu.num_sms);
    const auto [at, is_new] =
        dealt.try_emplace({work.blocks, work.slices, work.together, work.longest, work.shortest});
    if (is_new) at->second = dealt_factor(work, gpu.num_sms);
    return at->second;
  }
};

CostModel::CostModel(const Problem& problem, const Sizes& sizes, const Target& target,
                     const DeviceModel& model, const SequenceLengths& lengths)
    : state_(std::make_unique<State>(problem, sizes, lengths, target, model)) {}

CostModel::~CostModel() = default;

CostEstimate CostModel::estimate(const Schedule& schedule) {
  State& s = *state_;
  if (const CpuModel* cpu = cpu_of(s.model))
    return estimate_cpu(s.problem, s.parts, schedule, s.target, *cpu);
  return estimate(s.work(schedule), schedule.variant);
}

CostEstimate CostModel::estimate(const PassWork& pass, Variant variant) {
  State& s = *state_;
  CostEstimate estimate;
  double longest = -1;
  for (const KernelWork& work : pass.kernels) {
    const KernelTime time = time_of(work, s.wave_factor(work), s.rates(variant), s.gpu);
    for (size_t i = 0; i < time.terms.size(); ++i) estimate.terms_ms[i] += time.terms[i];
    estimate.ms += time.ms;
    estimate.stall_ms += time.stall;
    estimate.lower_bound_ms += time.lower_bound;
    if (time.ms <= longest) continue;
    longest = time.ms;
    estimate.wave_factor = time.wave;
    estimate.blocks_per_sm = work.blocks_per_sm;
  }
  const double rows_ms = pass.row_bytes / (s.gpu.dram_gbps * 1e6);
  estimate.terms_ms[static_cast<size_t>(Resource::kDram)] += rows_ms / s.gpu.constants.dram_share;
  estimate.launch_ms = pass.launches * s.gpu.launch_us * 1e-3;
  estimate.ms += rows_ms / s.gpu.constants.dram_share + estimate.launch_ms;
  estimate.lower_bound_ms += rows_ms;
  const auto& terms = estimate.terms_ms;
  estimate.limit =
      static_cast<Resource>(std::max_element(terms.begin(), terms.end()) - terms.begin());
  return estimate;
}

bool has_sum_of_both(const Problem& problem, const Schedule& schedule) {
  const bool is_forward = problem.pass == Pass::kForward || problem.pass == Pass::kForwardTrain;
  return is_forward && schedule.variant == Variant::kHopper && schedule.hopper.stagger <= 1;
}

std::optional<SumOfBoth> CostModel::sum_of_both(const Schedule& schedule,
                                                const std::vector<double>& clocks_per_score) {
  State& s = *state_;
  if (!has_sum_of_both(s.problem, schedule)) return std::nullopt;
  const PassWork pass = s.work(schedule);
  const KernelWork& work = pass.kernels[0];  // a forward has no other
  if (work.phases.size() != clocks_per_score.size()) return std::nullopt;
  double clocks = 0;
  for (size_t i = 0; i < clocks_per_score.size(); ++i)
    clocks += clocks_per_score[i] * work.phases[i].scores;
  const KernelTime time = time_of(work, s.wave_factor(work), s.rates(schedule.variant), s.gpu);
  SumOfBoth sum;
  sum.loops_ms = clocks / s.gpu.num_sms / (s.gpu.clock_ghz * kLoopClock * 1e6);
  sum.ms = estimate(pass, schedule.variant).ms - time.combined + sum.loops_ms * time.wave;
  return sum;
}

std::vector<KernelExtent> CostModel::extents(const Schedule& schedule) {
  State& s = *state_;
  const PassWork pass = s.work(schedule);
  std::vector<KernelExtent> extents;
  for (const KernelWork& work : pass.kernels) {
    const KernelTime time = time_of(work, s.wave_factor(work), s.rates(schedule.variant), s.gpu);
    KernelExtent extent{work.entry, 0, time.wave, work.hidden, work.busy, 0, time.stall};
    double bytes = 0;
    for (const Phase& phase : work.phases) {
      extent.tiles += phase.tiles;
      bytes += phase.operand_bytes;
    }
    // mma.sync takes its operands from registers; their loads are counted elsewhere.
    const Rates& rates = s.rates(schedule.variant);
    if (schedule.variant == Variant::kHopper)
      extent.operands_ms = bytes / rates.sustained[static_cast<size_t>(Resource::kShared)];
    extents.push_back(extent);
  }
  return extents;
}

CostEstimate estimate_cost(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
                           const Target& target, const DeviceModel& model,
                           const SequenceLengths& lengths) {
  return CostModel(problem, sizes, target, model, lengths).estimate(schedule);
}

double saving_x_ms(const Problem& problem, const Sizes& sizes, const Target& target,
                   const DeviceModel& device, const Calibration& calibration,
                   const SequenceLengths& lengths) {
  if (problem.pass != Pass::kBackward || !needs_epsilon(problem) || target.is_cpu()) return 0;
  Problem forward = problem;
  forward.pass = Pass::kForwardTrain;
  CostModel model(forward, sizes, target, device, lengths);
  const auto ms = [&](EpsilonFrom epsilon) {
    const Schedule schedule = default_schedule(forward, target, DqMode::kSplit, epsilon);
    return apply(model.estimate(schedule), calibration).ms;
  };
  return std::max(0.0, ms(EpsilonFrom::kX) - ms(EpsilonFrom::kPass));
}

nlohmann::json to_json(const CostEstimate& estimate, ModelKind kind) {
  nlohmann::json terms = nlohmann::json::object();
  for (int i = 0; i < kNumResources; ++i)
    terms[resource_name(static_cast<Resource>(i), kind)] =
        estimate.terms_ms[static_cast<size_t>(i)];
  return {{"ms", estimate.ms},
          {"elsewhere_ms", estimate.elsewhere_ms},
          {"lower_bound_ms", estimate.lower_bound_ms},
          {"terms_ms", terms},
          {"wave_factor", estimate.wave_factor},
          {"stall_ms", estimate.stall_ms},
          {"launch_ms", estimate.launch_ms},
          {"blocks_per_sm", estimate.blocks_per_sm},
          {"limit", resource_name(estimate.limit, kind)}};
}

}  // namespace lssar
