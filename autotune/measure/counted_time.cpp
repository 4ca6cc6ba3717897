#include "autotune/measure/counted_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "autotune/measure/check_call.h"
#include "autotune/measure/check_cases.h"
#include "autotune/model/kernel_work.h"
#include "codegen/shapes.h"
#include "virtual/run/virtual_device.h"
#include "virtual/state/units.h"

namespace lssar {
namespace {

constexpr int64_t kCountedLength = 1024;
constexpr uint64_t kCountedSeed = 1;
constexpr const char* kOrderSequences = "lssar_order_sequences";
// A persistent block does all the work, which takes a small part of this.
constexpr uint64_t kMaxCountedInstructions = uint64_t{1} << 28;

using Terms = std::array<double, kNumResources>;
constexpr auto kShared = static_cast<size_t>(Resource::kShared);
constexpr auto kL2 = static_cast<size_t>(Resource::kL2);
constexpr auto kDram = static_cast<size_t>(Resource::kDram);

double sector_bytes(const LaunchCounters& counters, AccessKind kind) {
  return static_cast<double>(counters.global[static_cast<size_t>(kind)].sectors) *
         vdev::kSectorBytes;
}

// In the cost model's resources. DRAM is not counted.
Terms amounts_of(const LaunchCounters& counters, const GpuModel& gpu) {
  double flop = 0, wavefronts = 0;
  for (const uint64_t count : counters.tensor_flop) flop += static_cast<double>(count);
  for (const SharedTraffic& traffic : counters.shared)
    wavefronts += static_cast<double>(traffic.wavefronts);
  const double moved = sector_bytes(counters, AccessKind::kRead) +
                       sector_bytes(counters, AccessKind::kWrite) +
                       static_cast<double>(counters.tma_load_bytes + counters.tma_store_bytes);
  const double added =
      sector_bytes(counters, AccessKind::kAtomic) + static_cast<double>(counters.tma_reduce_bytes);
  return {flop,
          static_cast<double>(counters.of(InstructionClass::kSpecial).lanes),
          static_cast<double>(counters.warp_instructions) * kWarpThreads,
          wavefronts * gpu.shared_bytes,
          moved + added * gpu.constants.sum_cost,
          0};
}

Terms times_of(const LaunchCounters& counters, const GpuModel& gpu, Variant variant) {
  const Terms amounts = amounts_of(counters, gpu), rates = resource_rates(gpu, variant, true);
  Terms times;
  for (size_t i = 0; i < times.size(); ++i) times[i] = amounts[i] / rates[i];
  return times;
}

// The run is a part of the task; `task` and `run` are rows, tiles or scores.
double scale_of(double task, double run) { return task > 0 && run > 0 ? task / run : 1; }

double count_rows(const Sizes& call, const SequenceLengths& lengths) {
  const Sizes sizes = sizes_of_packed(lengths, call);
  return static_cast<double>(sizes.batch) *
         static_cast<double>(sizes.heads * sizes.seq_q + sizes.kv_heads * sizes.seq_k);
}

const KernelExtent* find(const std::vector<KernelExtent>& extents, const std::string& entry) {
  for (const KernelExtent& extent : extents) {
    if (extent.entry == entry) return &extent;
  }
  return nullptr;
}

// The sizes of one group of heads, small enough to be interpreted.
Sizes counted_sizes(const Problem& problem, const Sizes& wanted) {
  Sizes sizes;
  sizes.batch = sizes.kv_heads = 1;
  sizes.heads = std::max<int64_t>(1, wanted.heads / std::max<int64_t>(1, wanted.kv_heads));
  const auto length = [](int64_t fixed, int64_t of_task) {
    if (fixed != 0) return fixed;
    return of_task > 0 ? std::min(of_task, kCountedLength) : kCountedLength;
  };
  sizes.seq_q = length(problem.seq_q, wanted.seq_q);
  sizes.seq_k = length(problem.seq_k, wanted.seq_k);
  return sizes;
}

// The longest sequence, one in the middle and a short one, small enough to be interpreted.
SequenceLengths counted_lengths(const SequenceLengths& lengths) {
  constexpr int64_t kLongest = kCountedLength / 2;
  std::vector<std::array<int64_t, 3>> sorted;  // work, queries, keys
  int64_t longest = 1;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    const int64_t q = lengths.q[b], k = lengths.k[b];
    if (q == 0 || k == 0) continue;
    sorted.push_back({q * k, q, k});
    longest = std::max({longest, q, k});
  }
  if (sorted.empty()) sorted.push_back({1, 1, 1});
  std::sort(sorted.begin(), sorted.end());
  std::vector<size_t> places = {0};
  if (sorted.size() > 2) places.push_back(sorted.size() / 2);
  if (sorted.size() > 1) places.push_back(sorted.size() - 1);
  const auto shortened = [&](int64_t length) {
    return longest <= kLongest ? length : std::max<int64_t>(1, length * kLongest / longest);
  };
  SequenceLengths some;
  for (const size_t place : places)
    some.add(shortened(sorted[place][1]), shortened(sorted[place][2]));
  return some;
}

}  // namespace

double counted_rows_ms(const LaunchCounters& counters, const GpuModel& gpu) {
  Terms times = times_of(counters, gpu, Variant::kPortable);
  // Whole rows are read once and written once.
  const Terms rates = resource_rates(gpu, Variant::kPortable, true);
  times[kDram] = times[kL2] * rates[kL2] / rates[kDram];
  return combine(times);
}

double counted_tiles_ms(const LaunchCounters& counters, const GpuModel& gpu, Variant variant,
                        const KernelExtent& extent, double scale) {
  Terms times = times_of(counters, gpu, variant);
  for (double& ms : times) ms *= scale;
  times[kShared] += extent.operands_ms;
  return combine(times, extent.hidden, extent.busy) * extent.wave_factor + extent.stall_ms;
}

double counted_ms(const std::vector<KernelCounters>& kernels, const CountedTask& task,
                  const Schedule& schedule, const Target& target, const GpuModel& gpu) {
  const auto ran =
      CostModel(task.run_problem, task.run_sizes, target, gpu, task.run_lengths).extents(schedule);
  const auto wanted =
      CostModel(task.problem, task.sizes, target, gpu, task.lengths).extents(schedule);
  const double rows =
      scale_of(count_rows(task.sizes, task.lengths), count_rows(task.run_sizes, task.run_lengths));
  double ms = 0;
  for (const KernelCounters& kernel : kernels) {
    const KernelExtent* extent = find(wanted, kernel.kernel);
    if (extent == nullptr) {
      const double scale = kernel.kernel == kOrderSequences ? 1 : rows;
      ms += counted_rows_ms(kernel.counters, gpu) * scale;
      continue;
    }
    const double tiles = scale_of(extent->tiles, find(ran, kernel.kernel)->tiles);
    ms += counted_tiles_ms(kernel.counters, gpu, schedule.variant, *extent, tiles);
  }
  return ms;
}

Status CountedRun::prepare(InputKind data, TruthSource& truths,
                           const std::vector<std::string>& compile_options) {
  const Target& target = engine_.device().info().target;
  problem_ = task_.problem;
  LSSAR_RETURN_IF_ERROR(validate(candidate_.schedule, problem_, target));
  KernelSource counted = source_;
  // Fixed lengths that are long: uses the same schedule with open lengths.
  if (std::max(problem_.seq_q, problem_.seq_k) > kCountedLength && !candidate_.source) {
    problem_ = with_open_lengths(problem_, candidate_.schedule);
    LSSAR_ASSIGN_OR_RETURN(counted, emit_kernel(problem_, candidate_.schedule, target));
  }
  sizes_ = counted_sizes(problem_, task_.sizes);
  if (problem_.varlen) {
    Sizes listed = task_.sizes;
    listed.batch = std::min(listed.batch, kMostSequences);
    task_lengths_ = task_.lengths.empty() ? even_lengths(problem_, listed) : task_.lengths;
    lengths_ = counted_lengths(task_lengths_);
    sizes_ = sizes_of_call(lengths_, sizes_.heads, sizes_.kv_heads);
  }
  inputs_ = random_inputs(problem_, sizes_of_packed(lengths_, sizes_), data, kCountedSeed);
  if (problem_.pass == Pass::kBackward) {
    LSSAR_ASSIGN_OR_RETURN(saved_, truths.saved(problem_, sizes_, inputs_, lengths_));
  }

  VirtualOptions options;
  options.target = target;
  options.num_threads = 1;  // gives as many SMs: persistent grids are the same everywhere
  options.count = true;
  options.trace = trace_;
  options.max_block_instructions = kMaxCountedInstructions;
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine_.compiler());
  EngineOptions engine_options;
  engine_options.compile_options = compile_options;
  counting_ = Engine::create(engine_options, make_virtual_device(options), compiler,
                             engine_.shared_store());
  LSSAR_ASSIGN_OR_RETURN(kernel_,
                         counting_->prepare_source(problem_, candidate_.schedule, counted));
  return {};
}

Result<double> CountedRun::ms(const GpuModel& gpu) {
  LSSAR_ASSIGN_OR_RETURN(CheckCall call, CheckCall::create(*counting_, kernel_, sizes_, lengths_));
  LSSAR_RETURN_IF_ERROR(call.run(inputs_, saved_));
  const DeviceInfo info = counting_->device().info();
  return counted_ms(counters(),
                    {problem_, sizes_, task_.problem, task_.sizes, lengths_, task_lengths_},
                    candidate_.schedule, info.target, gpu) +
         static_cast<double>(source_.steps.size()) * gpu.launch_us * 1e-3;
}

}  // namespace lssar
