#include "autotune/counted_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autotune/check_call.h"
#include "autotune/check_cases.h"
#include "runtime/virtual/virtual_device.h"

namespace lssar {
namespace {

constexpr int64_t kCountedLength = 1024;
constexpr uint64_t kSeed = 1;
// A persistent block does all the work, which is a small part of this.
constexpr uint64_t kMaxBlockInstructions = uint64_t{1} << 28;
constexpr double kSectorBytes = 32;
constexpr double kWarpLanes = 32;

// Clocks of one SM.
double kernel_clocks(const LaunchCounters& counters, const GpuModel& gpu) {
  double flop = 0;
  for (const uint64_t count : counters.tensor_flop) flop += static_cast<double>(count);
  double wavefronts = 0, l2_bytes = 0;
  for (const SharedTraffic& traffic : counters.shared)
    wavefronts += static_cast<double>(traffic.wavefronts);
  for (const GlobalTraffic& traffic : counters.global)
    l2_bytes += static_cast<double>(traffic.sectors) * kSectorBytes;
  l2_bytes += static_cast<double>(counters.tma_load_bytes + counters.tma_store_bytes +
                                  counters.tma_reduce_bytes);
  // GB/s over GHz: bytes per clock of the whole GPU.
  const double l2_bytes_per_clock = gpu.l2_gbps / gpu.clock_ghz / gpu.num_sms;
  const double special = static_cast<double>(counters.of(InstructionClass::kSpecial).lanes);
  const double terms[] = {
      static_cast<double>(counters.warp_instructions) * kWarpLanes / gpu.issue_slots,
      special / gpu.special,
      flop / gpu.tensor_flop,
      wavefronts,
      l2_bytes / l2_bytes_per_clock,
  };
  double squares = 0;
  for (const double term : terms) squares += term * term;
  return std::sqrt(squares);
}

// Of one group of heads, short enough to be interpreted.
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

}  // namespace

double counted_ms(const std::vector<KernelCounters>& kernels, const GpuModel& gpu) {
  double clocks = 0;
  for (const KernelCounters& kernel : kernels) clocks += kernel_clocks(kernel.counters, gpu);
  return clocks / (gpu.clock_ghz * gpu.sustained * 1e6);
}

Status CountedRun::prepare(InputKind data, TruthSource& truths,
                           const std::vector<std::string>& compile_options) {
  const Target& target = engine_.device().info().target;
  problem_ = task_.problem;
  KernelSource counted = source_;
  // Lengths that are fixed and long: the same schedule with open ones.
  if (std::max(problem_.seq_q, problem_.seq_k) > kCountedLength && !candidate_.source) {
    problem_ = with_open_lengths(problem_);
    LSSAR_ASSIGN_OR_RETURN(counted, emit_kernel(problem_, candidate_.schedule, target));
  }
  sizes_ = counted_sizes(problem_, task_.sizes);
  inputs_ = random_inputs(problem_, sizes_, data, kSeed);
  if (problem_.pass == Pass::kBackward) {
    LSSAR_ASSIGN_OR_RETURN(saved_, truths.saved(problem_, sizes_, inputs_));
  }

  VirtualOptions options;
  options.target = target;
  options.num_threads = 1;  // and so many SMs: persistent grids are alike everywhere
  options.count = true;
  options.trace = trace_;
  options.max_block_instructions = kMaxBlockInstructions;
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
  LSSAR_ASSIGN_OR_RETURN(CheckCall call, CheckCall::create(*counting_, kernel_, sizes_));
  LSSAR_RETURN_IF_ERROR(call.run(inputs_, saved_));
  const double run_scores = count_scores(problem_, sizes_);
  const double task_scores = count_scores(problem_, task_.sizes);
  const double scale = run_scores > 0 && task_scores > 0 ? task_scores / run_scores : 1;
  GpuModel rates = gpu;
  if (candidate_.schedule.variant == Variant::kPortable) rates.tensor_flop *= gpu.mma_sync;
  const double one_sm_ms = counted_ms(counting_->device().kernel_counters(), rates);
  return one_sm_ms * scale / gpu.num_sms +
         static_cast<double>(source_.steps.size()) * gpu.launch_us * 1e-3;
}

}  // namespace lssar
