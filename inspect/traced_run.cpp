#include "inspect/traced_run.h"

#include <algorithm>

#include "autotune/measure/check_call.h"
#include "autotune/measure/check_truth.h"
#include "autotune/measure/counted_time.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

const std::vector<std::string> kTracedLineOptions = {"-lineinfo"};
constexpr int64_t kTracedKeys = 1024;   // of the forward: several rounds of any ring
constexpr int64_t kTracedLength = 512;  // of the backward
// Lengths that no tile size divides.
constexpr int64_t kCheckedQueries = 200, kCheckedKeys = 328;

Sizes traced_sizes(const Problem& problem, const Schedule& schedule) {
  Sizes sizes{1, 1, 1, kTracedLength, kTracedLength};
  if (problem.pass != Pass::kBackward) {
    // Two work tiles, because the loads of the second one overlap the end of the first.
    const int chain = schedule.variant == Variant::kHopper ? schedule.hopper.stagger : 1;
    sizes.seq_q = int64_t{2} * schedule.forward.block_rows * chain;
    sizes.seq_k = kTracedKeys;
  }
  return sizes;
}

Status check_pass(const Problem& problem) {
  if (!is_of_range(problem.pass)) return {};
  return unsupported(std::string("pass = ") + pass_name(problem.pass) +
                     ": allowed here are forward, forward-train and backward");
}

// A compiler makes fewer instructions than the PTX has. The cost model knows the ratio for this
// project's kernels from their machine code.
double machine_share(const CountedRun& run, const Problem& problem, const Schedule& schedule,
                     const Target& target, const GpuModel& gpu) {
  constexpr double kLeast = 0.25;
  double counted = 0;
  for (const KernelCounters& kernel : run.counters()) {
    if (!shared_layout(problem, schedule, kernel.kernel).empty())
      counted += double(kernel.counters.warp_instructions);
  }
  const CostEstimate estimate =
      estimate_cost(problem, run.sizes(), schedule, target, gpu, run.lengths());
  const auto issue = size_t(Resource::kIssue);
  const double slots =
      estimate.terms_ms[issue] * resource_rates(gpu, schedule.variant, true)[issue] / kWarpThreads;
  return counted > 0 ? std::clamp(slots / counted, kLeast, 1.0) : 1;
}

}  // namespace

Result<TracedKernels> trace_kernels(Engine& engine, const Problem& problem,
                                    const Schedule& schedule, const GpuModel& gpu) {
  LSSAR_RETURN_IF_ERROR(check_pass(problem));
  const Target& target = engine.device().info().target;
  RunnerTask task;
  task.problem = with_open_lengths(problem, schedule);
  task.sizes = traced_sizes(problem, schedule);
  CandidateSpec candidate;
  candidate.schedule = schedule;
  LSSAR_ASSIGN_OR_RETURN(const KernelSource source, emit_kernel(task.problem, schedule, target));
  TruthSource truths(engine);
  BlockTrace trace;
  CountedRun run(task, candidate, source, engine);
  run.record(&trace);
  LSSAR_RETURN_IF_ERROR(run.prepare(InputKind::kGauss, truths, kTracedLineOptions));
  LSSAR_RETURN_IF_ERROR(run.ms(gpu).status());

  TracedKernels traced;
  traced.sizes = run.sizes();
  traced.counters = run.counters();
  GpuModel rates = gpu;
  if (schedule.variant == Variant::kPortable) rates.tensor_flop *= gpu.mma_sync;
  traced.machine_instructions = machine_share(run, task.problem, schedule, target, gpu);
  const std::vector<SourcePlace> places = places_of_ptx(run.image().bytes);
  for (const KernelTrace& kernel : trace.kernels) {
    std::vector<SharedPart> layout = shared_layout(task.problem, schedule, kernel.kernel);
    if (layout.empty()) continue;
    traced.timelines.push_back(make_timeline(
        {kernel, rates, std::move(layout), places, run.source(), traced.machine_instructions}));
  }
  return traced;
}

Result<Accuracy> check_accuracy(Engine& engine, const Problem& problem, const Schedule& schedule) {
  LSSAR_RETURN_IF_ERROR(check_pass(problem));
  if (engine.device().info().kind == "record")
    return unsupported("device = record: it computes nothing; virtual and cuda do");
  const Problem open = with_open_lengths(problem, schedule);
  CheckCase one;
  one.sizes = {1, 2, 1, kCheckedQueries, kCheckedKeys};
  TruthSource truths(engine);
  LSSAR_ASSIGN_OR_RETURN(const auto truth, truths.truth(open, one));
  LSSAR_ASSIGN_OR_RETURN(auto kernel, engine.prepare(open, schedule));
  LSSAR_ASSIGN_OR_RETURN(CheckCall call, CheckCall::create(engine, std::move(kernel), one.sizes));
  LSSAR_RETURN_IF_ERROR(call.run(truth->inputs, truth->saved));

  Accuracy accuracy;
  accuracy.sizes = one.sizes;
  accuracy.device = engine.device().info().name;
  const ReferenceOutputs& expected = truth->expected;
  const auto add = [&](const char* name, OutputTensor tensor, const std::vector<float>& values) {
    const TensorError error =
        compare(reference_values(expected, tensor), values, allowed_error(open, tensor, expected));
    const auto plain = truth->baseline.find(tensor);
    accuracy.rows.push_back({name, error.relative_l2, error.tolerance,
                             plain == truth->baseline.end() ? 0 : plain->second, error.worst_abs,
                             error.passed});
  };
  if (problem.pass != Pass::kBackward) {
    add("o", OutputTensor::kO, call.values("o"));
  } else {
    add("dq", OutputTensor::kDq, call.values("grad_q"));
    add("dk", OutputTensor::kDk, call.values("grad_k"));
    add("dv", OutputTensor::kDv, call.values("grad_v"));
    if (!expected.dsink.empty()) add("dsink", OutputTensor::kDsink, call.values("grad_sink"));
  }
  return accuracy;
}

}  // namespace lssar
