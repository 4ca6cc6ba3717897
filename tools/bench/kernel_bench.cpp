// Kernel time on a GPU by its own events: every pass, causal bf16, 16 heads. Without a GPU every
// benchmark is skipped with that reason.
#include <benchmark/benchmark.h>

#include "tools/bench/bench_cases.h"
#include "tools/bench/device_call.h"

namespace lssar::bench {
namespace {

constexpr int kHeads = 16;
constexpr int kWarmUps = 3;

// The conventional count for attention, independent of the schedule: two matrix products for a
// forward, five for a backward, and half of that with a causal mask.
double attention_flop(const Problem& problem, const Sizes& sizes) {
  const double pairs = static_cast<double>(sizes.batch) * sizes.heads * sizes.seq_q * sizes.seq_k *
                       (problem.causal ? 0.5 : 1.0);
  const double products = problem.pass == Pass::kBackward ? 5 : 2;
  return products * 2 * pairs * problem.head_dim;
}

void run(benchmark::State& state, Case which) {
  EngineOptions options;
  options.device = DeviceChoice::kCuda;
  options.cache.directory = "none";
  const auto engine = Engine::open(options);
  if (stopped(state, engine.status())) return;

  const Problem problem = standard_problem(which.pass, which.head_dim);
  const int64_t length = state.range(0);
  const Sizes sizes{
      .batch = 1, .heads = kHeads, .kv_heads = kHeads, .seq_q = length, .seq_k = length};
  auto call = DeviceCall::create(**engine, problem, sizes);
  if (stopped(state, call.status())) return;
  for (int i = 0; i < kWarmUps; ++i) {
    if (stopped(state, (*call)->run_ms().status())) return;
  }
  for (auto _ : state) {
    const Result<double> ms = (*call)->run_ms();
    if (stopped(state, ms.status())) return;
    state.SetIterationTime(*ms * 1e-3);
  }
  state.counters["TFLOP_per_s"] = benchmark::Counter(attention_flop(problem, sizes) * 1e-12,
                                                     benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel((*engine)->device().info().name);
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using namespace lssar::bench;
  for (const Case& which : all_cases()) {
    const std::string name = "kernel/" + case_name(which.pass, which.head_dim);
    benchmark::RegisterBenchmark(name.c_str(), run, which)
        ->Unit(benchmark::kMicrosecond)
        ->UseManualTime()
        ->Iterations(30)  // fixed, so that a case is compiled once
        ->ArgName("length")
        ->Arg(1024)
        ->Arg(4096);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
