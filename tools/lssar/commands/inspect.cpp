// lssar inspect: one kernel's source, PTX, machine code and counters; or two kernels side by side.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/model/cost_model.h"
#include "autotune/search/tuner.h"
#include "base/file.h"
#include "codegen/emitted_file.h"
#include "inspect/inspection_diff.h"
#include "inspect/timing/kernel_timing.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/engine_to_compile.h"
#include "tools/lssar/options/kernel_variation.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

struct InspectOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  std::string what;  // FILE.cu or a key of the binary cache; "": the problem's kernel
  std::string view = "summary";
  std::vector<std::string> diff;
  bool no_count = false;
  bool timing = false;
  bool json = false;
};

Result<std::unique_ptr<Engine>> open_engine(const InspectOptions& options,
                                            const std::string& target) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions asked, options.execution.engine_options(target));
  return open_engine_to_compile(asked);
}

InspectionRequest request_of(const KernelVariation& kernel, const InspectOptions& options) {
  InspectionRequest request;
  request.problem = kernel.problem;
  request.schedule = kernel.choice.schedule;
  request.sizes = typical_sizes(kernel.problem);
  request.source = kernel.source;
  request.count = !options.no_count;
  return request;
}

// The variation that the options describe, without --diff.
Result<KernelVariation> described(const InspectOptions& options) {
  if (is_cache_key(options.what)) {
    LSSAR_ASSIGN_OR_RETURN(const auto engine, open_engine(options, options.schedule.target_name()));
    return kernel_of_key(engine->store(), options.what);
  }
  if (!options.what.empty()) return kernel_of_file(options.what);
  KernelVariation kernel;
  LSSAR_ASSIGN_OR_RETURN(kernel.problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const auto engine, open_engine(options, options.schedule.target_name()));
  kernel.target = engine->device().info().target;
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));
  LSSAR_ASSIGN_OR_RETURN(
      kernel.choice,
      chooser.choose(kernel.problem, options.problem.sizes_to_choose_by(kernel.problem)));
  return kernel;
}

Result<Inspection> inspect_kernel(const KernelVariation& kernel, const InspectOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const auto engine, open_engine(options, kernel.target.name()));
  return inspect(*engine, request_of(kernel, options));
}

Result<int> show_diff(const KernelVariation& base, const InspectOptions& options) {
  const auto choose = [&](const Problem& problem, const Target& target) -> Result<ScheduleChoice> {
    LSSAR_ASSIGN_OR_RETURN(const auto engine, open_engine(options, target.name()));
    LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));
    return chooser.choose(problem, options.problem.sizes_to_choose_by(problem));
  };
  std::vector<DiffSide> sides;
  for (const std::string& text : options.diff) {
    LSSAR_ASSIGN_OR_RETURN(const KernelVariation kernel, varied(base, text, choose));
    fmt::print("{}: schedule: {}\n", text, kernel.choice.reason);
    LSSAR_ASSIGN_OR_RETURN(Inspection inspection, inspect_kernel(kernel, options));
    sides.push_back({text, std::move(inspection)});
  }
  LSSAR_ASSIGN_OR_RETURN(const std::string text, diff_text(sides[0], sides[1]));
  print_text("{}", text);
  return static_cast<int>(kDone);
}

Result<std::string> view_of(const Inspection& inspection, const std::string& view) {
  const bool is_of_gpu = view == "ptx" || view == "side";
  if (is_of_gpu && inspection.facts.image.kind == ImageKind::kObject) {
    return invalid_argument(
        fmt::format("--view = {}: for a kernel of a CPU allowed are summary, source and sass (its "
                    "machine code)",
                    view));
  }
  if (view == "source") return inspection.facts.source.source;
  if (view == "ptx") return inspection.ptx;
  if (view == "summary") return inspection_text(inspection);
  if (inspection.kernels.empty()) {
    return missing(inspection.problems.empty() ? "no machine code" : inspection.problems[0]);
  }
  return view == "sass" ? inspection.listing : side_by_side(inspection);
}

Status check_timing(const InspectOptions& options) {
  if (options.timing && (options.view != "summary" || !options.diff.empty()))
    return invalid_argument("--timing: it is shown with the summary, not with --view or --diff");
  return {};
}

bool is_cubin(const std::string& path) { return path.ends_with(".cubin"); }

// A cubin of another compiler: nothing but its timing can be shown.
Result<int> time_cubin(const InspectOptions& options) {
  if (!options.timing)
    return invalid_argument(
        fmt::format("{}: of a cubin only --timing is possible; give that option", options.what));
  LSSAR_ASSIGN_OR_RETURN(const std::string cubin, read_file(options.what));
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const std::vector<KernelTiming> timing, cubin_timing(cubin, problem.pass));
  if (options.json) {
    print_json({{"timing", to_json(timing)}});
  } else {
    print_text("{}", timing_text(timing));
  }
  return static_cast<int>(kDone);
}

// What `--timing` adds of a problem's kernel.
struct Timing {
  std::vector<KernelTiming> kernels;
  double estimate_ms = 0;        // by the cost model
  std::optional<SumOfBoth> sum;  // of both models
};

Result<Timing> timing_of(const Inspection& inspection, const KernelVariation& kernel,
                         const InspectOptions& options) {
  Timing timing;
  LSSAR_ASSIGN_OR_RETURN(timing.kernels,
                         facts_timing(inspection.facts, kernel.problem.pass, kernel.target));
  LSSAR_ASSIGN_OR_RETURN(const GpuModel gpu, gpu_model(kernel.target.name()));
  CostModel model(kernel.problem, options.problem.sizes_to_choose_by(kernel.problem), kernel.target,
                  gpu);
  timing.estimate_ms = model.estimate(kernel.choice.schedule).ms;
  timing.sum = model.sum_of_both(kernel.choice.schedule, clocks_per_score(timing.kernels));
  return timing;
}

void add_json(const Timing& timing, nlohmann::json* json) {
  (*json)["timing"] = to_json(timing.kernels);
  (*json)["estimate_ms"] = timing.estimate_ms;
  if (timing.sum)
    (*json)["sum_of_both"] = {{"ms", timing.sum->ms}, {"loops_ms", timing.sum->loops_ms}};
}

std::string text_of(const Timing& timing) {
  std::string text = timing_text(timing.kernels);
  if (timing.sum)
    text += fmt::format("  these loops and, by the cost model, all else: {:.4g} ms (predicted)\n",
                        timing.sum->ms);
  return text;
}

Result<int> show_json(const Inspection& inspection, const KernelVariation& kernel,
                      const InspectOptions& options) {
  nlohmann::json json = to_json(inspection);
  describe_choice(kernel.choice, &json);
  if (options.timing) {
    LSSAR_ASSIGN_OR_RETURN(const Timing timing, timing_of(inspection, kernel, options));
    add_json(timing, &json);
  }
  print_json(json);
  return static_cast<int>(kDone);
}

Result<int> inspect_all(InspectOptions options) {
  const char* const views[] = {"summary", "source", "ptx", "sass", "side"};
  if (std::find(std::begin(views), std::end(views), options.view) == std::end(views)) {
    return invalid_argument(
        fmt::format("--view = {}: allowed are {}", options.view, fmt::join(views, ", ")));
  }
  if (options.view != "summary" && options.diff.empty() && !options.json) options.no_count = true;
  LSSAR_RETURN_IF_ERROR(check_timing(options));
  if (is_cubin(options.what)) return time_cubin(options);
  LSSAR_ASSIGN_OR_RETURN(const KernelVariation kernel, described(options));
  if (!options.diff.empty()) return show_diff(kernel, options);
  LSSAR_ASSIGN_OR_RETURN(const Inspection inspection, inspect_kernel(kernel, options));
  if (options.json) return show_json(inspection, kernel, options);
  LSSAR_ASSIGN_OR_RETURN(std::string text, view_of(inspection, options.view));
  if (options.timing) {
    LSSAR_ASSIGN_OR_RETURN(const Timing timing, timing_of(inspection, kernel, options));
    text += text_of(timing);
  }
  // The other views are files: source, PTX, machine code.
  if (!options.execution.quiet())
    print_choice(options.view == "summary" ? stdout : stderr, kernel.choice);
  print_text("{}", text);
  return static_cast<int>(kDone);
}

}  // namespace

void add_inspect(CLI::App& app, Action* action) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* sub = app.add_subcommand("inspect", "A kernel's code, and what its instructions do");
  sub->add_option(
         "what", options->what,
         "a source that lssar emit wrote (edited or not), or a key of the binary cache or its "
         "first digits (lssar cache ls), or with --timing a .cubin; else the problem's kernel")
      ->type_name("KERNEL");
  options->problem.add_to(*sub);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  sub->add_option("--view", options->view,
                  "what is shown; side: machine code below the line it is of")
      ->type_name("summary|source|ptx|sass|side")
      ->group("Inspection")
      ->capture_default_str();
  sub->add_option("--diff", options->diff,
                  "two variations of the kernel to compare: FIELD=VALUE, several joined by ',' (of "
                  "the problem, of the schedule as forward.block_cols, or target), or FILE.cu")
      ->type_name("A B")
      ->group("Inspection")
      ->expected(2);
  sub->add_flag("--no-count", options->no_count, "do not run it on the counting virtual device")
      ->group("Inspection");
  sub->add_flag("--timing", options->timing,
                "also predict the clocks of each hot loop from its machine code (sm_90a)")
      ->group("Inspection");
  sub->add_flag("--json", options->json, "the summary as a JSON object")->group("Inspection");
  sub->footer(
      "\nMachine code needs NVRTC and NVIDIA's nvdisasm, that of a CPU objdump. Where one is\n"
      "missing, the rest is shown and it is said how to get it. Counts are of a run on the\n"
      "virtual device, of at most 1024 keys; kernels of CPUs are not counted.\n\n"
      "Examples:\n"
      "  lssar inspect --head-dim 128 --target sm_90a --device virtual\n"
      "  lssar inspect --head-dim 128 --target sm_90a --device virtual --timing --no-count\n"
      "  lssar inspect --head-dim 64 --diff p=3 p=15\n"
      "  lssar inspect --diff forward.block_cols=32 forward.block_cols=64\n\n"
      "Example:\n  lssar inspect --view side\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return inspect_all(*options); }; });
}

}  // namespace lssar::command
