#include "inspect/inspection.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/measure/check_truth.h"
#include "autotune/measure/counted_time.h"
#include "inspect/disassembler.h"
#include "inspect/x86_code.h"

namespace lssar {
namespace {

const std::vector<std::string> kLineOptions = {"-lineinfo"};

class Inspector {
 public:
  Inspector(Engine& engine, const InspectionRequest& request)
      : engine_(engine), request_(request) {}

  Result<Inspection> inspect() {
    LSSAR_ASSIGN_OR_RETURN(KernelSource source, make_source());
    if (engine_.device().info().target.is_cpu()) return inspect_cpu(std::move(source));
    LSSAR_ASSIGN_OR_RETURN(const auto compiler, engine_.compiler());
    EngineOptions options;
    options.compile_options = kLineOptions;
    const auto lines =
        Engine::create(options, engine_.shared_device(), compiler, engine_.shared_store());
    LSSAR_ASSIGN_OR_RETURN(
        out_.facts, kernel_facts(*lines, request_.problem, request_.schedule, std::move(source)));
    LSSAR_RETURN_IF_ERROR(make_ptx(*lines));
    disassemble_image();
    if (request_.count) {
      const Status status = count();
      if (!status.ok()) out_.problems.push_back("not counted: " + status.message());
    }
    return std::move(out_);
  }

 private:
  // Nothing counts what it executes, and its machine code has no line numbers.
  Result<Inspection> inspect_cpu(KernelSource source) {
    LSSAR_ASSIGN_OR_RETURN(
        out_.facts, kernel_facts(engine_, request_.problem, request_.schedule, std::move(source)));
    out_.score_multiply_adds = static_cast<double>(request_.problem.head_dim) /
                               cpu_level(engine_.device().info().target).lanes;
    take_listing(disassemble_object(out_.facts.image.bytes), &parse_x86);
    return std::move(out_);
  }

  Result<KernelSource> make_source() {
    if (request_.source) return *request_.source;
    return emit_kernel(request_.problem, request_.schedule, engine_.device().info().target);
  }

  Status make_ptx(Engine& lines) {
    if (out_.facts.image.kind == ImageKind::kPtx) {
      out_.ptx = out_.facts.image.bytes;
      return {};
    }
    Result<CompiledImage> compiled =
        lines.compile(request_.problem, request_.schedule, out_.facts.source, ImageKind::kPtx);
    LSSAR_RETURN_IF_ERROR(compiled.status());
    out_.ptx = std::move(compiled->image.bytes);
    return {};
  }

  void disassemble_image() {
    if (out_.facts.image.kind != ImageKind::kCubin) {
      out_.problems.push_back("no machine code: " + out_.facts.compiler +
                              " makes PTX; NVRTC, of a CUDA toolkit, makes cubins");
      return;
    }
    take_listing(disassemble(out_.facts.image.bytes), &parse_sass);
  }

  void take_listing(Result<std::string> listing,
                    Result<std::vector<SassKernel>> (*parse)(std::string_view)) {
    if (!listing.ok()) {
      out_.problems.push_back("no machine code: " + listing.status().message());
      return;
    }
    Result<std::vector<SassKernel>> kernels = parse(*listing);
    if (!kernels.ok()) {
      out_.problems.push_back("machine code is not understood: " + kernels.status().message());
      return;
    }
    out_.listing = std::move(*listing);
    out_.kernels = std::move(*kernels);
  }

  Status count() {
    RunnerTask task;
    task.problem = request_.problem;
    task.sizes = request_.sizes;
    CandidateSpec candidate;
    candidate.schedule = request_.schedule;
    if (request_.source) candidate.source = out_.facts.source;
    TruthSource truths(engine_);
    CountedRun run(task, candidate, out_.facts.source, engine_);
    LSSAR_RETURN_IF_ERROR(run.prepare(InputKind::kGauss, truths, kLineOptions));
    LSSAR_ASSIGN_OR_RETURN(const GpuModel gpu, gpu_model(engine_.device().info().target.name()));
    LSSAR_RETURN_IF_ERROR(run.ms(gpu).status());
    out_.counted_sizes = run.sizes();
    out_.counted_source = run.source();
    const std::vector<SourcePlace> places = places_of_ptx(run.image().bytes);
    for (KernelCounters& counters : run.counters()) {
      CountedKernel kernel;
      kernel.by_place = activity_by_place(counters.lines, places);
      kernel.counters = std::move(counters);
      out_.counted.push_back(std::move(kernel));
    }
    return {};
  }

  Engine& engine_;
  const InspectionRequest& request_;
  Inspection out_;
};

}  // namespace

Result<Inspection> inspect(Engine& engine, const InspectionRequest& request) {
  return Inspector(engine, request).inspect();
}

}  // namespace lssar
