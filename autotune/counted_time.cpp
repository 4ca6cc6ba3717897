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
  return clocks / (gpu.clock_ghz * 1e6);
}

Result<double> counted_time_ms(const RunnerTask& task, const CandidateSpec& candidate,
                               const KernelSource& source, const TimeRequest& request,
                               const GpuModel& gpu, Engine& engine, TruthSource& truths) {
  const Target& target = engine.device().info().target;
  Problem problem = task.problem;
  KernelSource counted = source;
  // Lengths that are fixed and long: the same schedule with open ones.
  if (std::max(problem.seq_q, problem.seq_k) > kCountedLength && !candidate.source) {
    problem = with_open_lengths(problem);
    LSSAR_ASSIGN_OR_RETURN(counted, emit_kernel(problem, candidate.schedule, target));
  }
  const Sizes sizes = counted_sizes(problem, task.sizes);
  const RandomInputs inputs = random_inputs(problem, sizes, request.data, kSeed);
  SavedTensors saved;
  if (problem.pass == Pass::kBackward) {
    LSSAR_ASSIGN_OR_RETURN(saved, truths.saved(problem, sizes, inputs));
  }

  VirtualOptions options;
  options.target = target;
  options.num_threads = 1;  // and so many SMs: persistent grids are alike everywhere
  options.count = true;
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine.compiler());
  const std::unique_ptr<Engine> counting = Engine::create(
      {}, make_virtual_device(options), compiler, engine.shared_store());
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedKernel> kernel,
                         counting->prepare_source(problem, candidate.schedule, counted));
  LSSAR_ASSIGN_OR_RETURN(CheckCall call, CheckCall::create(*counting, kernel, sizes));
  LSSAR_RETURN_IF_ERROR(call.run(inputs, saved));

  const double run_scores = count_scores(problem, sizes);
  const double task_scores = count_scores(problem, task.sizes);
  const double scale = run_scores > 0 && task_scores > 0 ? task_scores / run_scores : 1;
  const double one_sm_ms = counted_ms(counting->device().kernel_counters(), gpu);
  return one_sm_ms * scale / gpu.num_sms +
         static_cast<double>(source.steps.size()) * gpu.launch_us * 1e-3;
}

}  // namespace lssar
