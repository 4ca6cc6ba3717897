// Speed of the virtual device: forward of one head, 512 x 512, d 64, on one thread and on all.
// Targets, per core with AVX-512: 50 million warp instructions per second, 20 in strict mode.
#include <benchmark/benchmark.h>

#include "tools/bench/bench_cases.h"
#include "tools/bench/device_call.h"
#include "virtual/run/virtual_device.h"

namespace lssar::bench {
namespace {

struct VirtualCase {
  Pass pass;
  bool causal;
  CompilerChoice compiler;
  bool strict = false;
  int heads = 1;
  int64_t length = 512;
};

void run(benchmark::State& state, VirtualCase c) {
  VirtualOptions device_options;
  device_options.target = *target_from_name("sm_80");
  device_options.strict = c.strict;
  device_options.num_threads = static_cast<int>(state.range(0));
  const std::shared_ptr<Device> device = make_virtual_device(device_options);
  EngineOptions options;
  options.compiler = c.compiler;
  options.cache.directory = "none";
  const std::unique_ptr<Engine> engine = Engine::create(options, device, nullptr);

  Problem problem = standard_problem(c.pass, 64);
  problem.causal = c.causal;
  const Sizes sizes{.batch = 1,
                    .heads = c.heads,
                    .kv_heads = c.heads,
                    .seq_q = c.length,
                    .seq_k = c.length};
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
  const CompilerChoice any = CompilerChoice::kAuto;
  bench::register_one("forward_512_strict", {Pass::kForward, false, any, true});
  bench::register_one("backward_512_causal_strict", {Pass::kBackward, true, any, true});
  bench::register_one("forward_train_4x1024_causal_strict",
                      {Pass::kForwardTrain, true, any, true, 4, 1024});
  bench::register_one("backward_4x1024_causal_strict", {Pass::kBackward, true, any, true, 4, 1024});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
