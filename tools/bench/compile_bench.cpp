// A cold problem: compiles its source with each compiler, in CPU time of the whole process. Target:
// a forward in at most 1.5 CPU-seconds from problem to loaded kernel.
#include <benchmark/benchmark.h>

#include "codegen/emit.h"
#include "codegen/schedule.h"
#include "compile/compiler.h"
#include "tools/bench/bench_cases.h"

namespace lssar::bench {
namespace {

struct CompileCase {
  Case which;
  CompilerChoice compiler;
  ImageKind kind;
};

void compile(benchmark::State& state, CompileCase c) {
  const Problem problem = standard_problem(c.which.pass, c.which.head_dim);
  const Target target = *target_from_name("sm_90");
  const auto compiler = open_compiler(c.compiler);
  if (stopped(state, compiler.status())) return;
  const auto kernel = emit_kernel(problem, default_schedule(problem, target), target);
  if (stopped(state, kernel.status())) return;

  CompileRequest request;
  request.name = kernel->name;
  request.source = kernel->source;
  request.target = target;
  request.kind = c.kind;
  size_t image_bytes = 0;
  for (auto _ : state) {
    const Result<Image> image = (*compiler)->compile(request);
    if (stopped(state, image.status())) return;
    image_bytes = image->bytes.size();
  }
  state.counters["image_bytes"] = static_cast<double>(image_bytes);
  state.SetLabel((*compiler)->name() + " " + (*compiler)->version());
}

void register_all(const std::string& name, CompilerChoice compiler, ImageKind kind) {
  for (const Case& which : all_cases()) {
    const std::string full = "compile/" + name + "/" + case_name(which.pass, which.head_dim);
    benchmark::RegisterBenchmark(full.c_str(), compile, CompileCase{which, compiler, kind})
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime()
        ->Iterations(2);
  }
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using namespace lssar;
  bench::register_all("nvrtc_cubin", CompilerChoice::kNvrtc, ImageKind::kCubin);
  bench::register_all("nvrtc_ptx", CompilerChoice::kNvrtc, ImageKind::kPtx);
  bench::register_all("llvm_ptx", CompilerChoice::kLlvm, ImageKind::kPtx);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
