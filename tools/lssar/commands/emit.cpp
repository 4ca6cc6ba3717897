// lssar emit: the generated source of a problem.
#include <memory>

#include <fmt/format.h>

#include "base/output_file.h"
#include "cache/file_system.h"
#include "codegen/emit.h"
#include "runtime/debug/override.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"

namespace lssar::command {
namespace {

struct EmitOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  std::string output = "-";
  std::string override_folder;
  bool quiet = false;
};

Result<int> emit(const EmitOptions& options) {
  const std::string& target_name = options.schedule.target_name();
  LSSAR_ASSIGN_OR_RETURN(const Target target,
                         target_from_name(target_name.empty() ? "sm_80" : target_name));
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(target));
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChoice choice,
                         chooser.choose(problem, options.problem.sizes_to_choose_by(problem)));
  LSSAR_ASSIGN_OR_RETURN(const KernelSource kernel, emit_kernel(problem, choice.schedule, target));

  if (!options.override_folder.empty()) {
    const std::string path = options.override_folder + "/" + override_name(kernel, target);
    // LSSAR_OVERRIDE_DIR requires it: nobody else may have written there.
    LSSAR_RETURN_IF_ERROR(posix_file_system().prepare_folder(options.override_folder));
    LSSAR_RETURN_IF_ERROR(write_output_file(path, kernel.source, {.mode = kSharedFileMode}));
    fmt::print("{}\n", path);
  } else {
    LSSAR_RETURN_IF_ERROR(write_output_file(options.output, kernel.source));
  }
  // Standard output has what other programs read: a source, or a path.
  if (!options.quiet) print_choice(stderr, choice);
  return static_cast<int>(kDone);
}

}  // namespace

void add_emit(CLI::App& app, Action* action) {
  auto options = std::make_shared<EmitOptions>();
  CLI::App* sub = app.add_subcommand(
      "emit", "Print the source generated for a problem: CUDA, or C++ for a CPU");
  options->problem.add_to(*sub);
  options->schedule.add_to(*sub, "architecture to make it for, a GPU's or a CPU's (default sm_80)");
  CLI::Option* output = sub->add_option("-o,--output", options->output,
                                        "write to FILE; -: to standard output, the default")
                            ->type_name("FILE");
  sub->add_option("--override", options->override_folder,
                  "write to DIR under the name that LSSAR_OVERRIDE_DIR=DIR makes every later run "
                  "use, and print the path")
      ->type_name("DIR")
      ->excludes(output);
  sub->add_flag("-q,--quiet", options->quiet,
                "do not say on standard error where the schedule came from");
  sub->footer(
      "\nThe source is one file that compiles on its own. Sizes that are not given (--seq, "
      "--batch,\n"
      "--heads) do not change the default schedule; a tuned one is looked up for 4096 queries and\n"
      "keys, 4 batch entries and 16 heads.\n\n"
      "Example:\n"
      "  lssar emit --pass forward --head-dim 64 --p 15 --causal --target sm_90 -o forward.cu\n"
      "  nvcc -cubin -arch=sm_90 forward.cu\n"
      "  lssar emit --pass forward --head-dim 64 --causal --target x86-64-v3 -o forward.cpp\n"
      "  clang++ -std=c++17 -O3 -march=x86-64-v3 -c forward.cpp\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return emit(*options); }; });
}

}  // namespace lssar::command
