// Speed of the virtual device: forward of one head, 512 x 512, d 64, on one thread and on all.
// Targets, per core: 20 million warp instructions per second with AVX2, 35 with AVX-512.
#include <benchmark/benchmark.h>

#include "runtime/virtual/virtual_device.h"
#include "tools/bench/bench_cases.h"
#include "tools/bench/device_call.h"

namespace lssar::bench {
namespace {

struct VirtualCase {
  Pass pass;
  bool causal;
  CompilerChoice compiler;
};

void run(benchmark::State& state, VirtualCase c) {
  VirtualOptions device_options;
  device_options.target = *target_from_name("sm_80");
  device_options.num_threads = static_cast<int>(state.range(0));
  const std::shared_ptr<Device> device = make_virtual_device(device_options);
  EngineOptions options;
  options.compiler = c.compiler;
  options.cache.directory = "none";
  const std::unique_ptr<Engine> engine = Engine::create(options, device, nullptr);

  Problem problem = standard_problem(c.pass, 64);
  problem.causal = c.causal;
  const Sizes sizes{.batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 512, .seq_k = 512};
  auto call = DeviceCall::create(*engine, problem, sizes);
  if (stopped(state, call.status())) return;

  const uint64_t before = device->counters().warp_instructions;
  for (auto _ : state) {
    const Result<double> ms = (*call)->run_ms();
    if (stopped(state, ms.status())) return;
    state.SetIterationTime(*ms * 1e-3);
  }
  const auto executed = static_cast<double>(device->counters().warp_instructions - before);
  state.counters["warp_instructions"] =
      benchmark::Counter(executed, benchmark::Counter::kAvgIterations);
  state.counters["Mwi_per_s"] = benchmark::Counter(executed * 1e-6, benchmark::Counter::kIsRate);
  state.SetLabel(device->info().name);
}

void register_one(const std::string& name, const VirtualCase& which) {
  benchmark::RegisterBenchmark(("virtual/" + name).c_str(), run, which)
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime()
      ->Iterations(30)  // fixed, so that a case is compiled once
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(0);  // as many as the machine has
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using namespace lssar;
  bench::register_one("forward_512_nvrtc", {Pass::kForward, false, CompilerChoice::kNvrtc});
  bench::register_one("forward_512_llvm", {Pass::kForward, false, CompilerChoice::kLlvm});
  bench::register_one("forward_512_causal", {Pass::kForward, true, CompilerChoice::kAuto});
  bench::register_one("backward_512_causal", {Pass::kBackward, true, CompilerChoice::kAuto});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
