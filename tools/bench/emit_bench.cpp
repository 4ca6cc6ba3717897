// From a problem to its source: default schedule, and emission.
#include <benchmark/benchmark.h>

#include "codegen/emit.h"
#include "codegen/schedule.h"
#include "tools/bench/bench_cases.h"

namespace lssar::bench {
namespace {

void emit(benchmark::State& state, Case which) {
  const Problem problem = standard_problem(which.pass, which.head_dim);
  const Target target = *target_from_name("sm_90");
  size_t source_bytes = 0;
  for (auto _ : state) {
    const Result<KernelSource> kernel =
        emit_kernel(problem, default_schedule(problem, target), target);
    if (stopped(state, kernel.status())) return;
    source_bytes = kernel->source.size();
  }
  state.counters["source_bytes"] = static_cast<double>(source_bytes);
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using namespace lssar::bench;
  for (const Case& which : all_cases()) {
    benchmark::RegisterBenchmark(("emit/" + case_name(which.pass, which.head_dim)).c_str(), emit,
                                 which)
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(kMinSeconds);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
