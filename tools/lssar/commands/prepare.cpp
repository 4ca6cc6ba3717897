// lssar prepare: compiles a kernel into the cache and says which one it is.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/engine.h"
#include "runtime/replay.h"
#include "tools/lssar/call/attention_run.h"
#include "tools/lssar/call/open_engine.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/overrides.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"
#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {
namespace {

struct PrepareOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  bool json = false;
};

void print_kernel(const PreparedKernel& kernel, Engine& engine, const ScheduleChoice& choice) {
  const DeviceInfo& device = engine.device().info();
  const auto compiler = engine.compiler();
  nlohmann::json json = {
      {"kernel", kernel.source.name},
      {"key", kernel.key},
      {"problem", to_json(kernel.problem)},
      {"schedule", to_json(kernel.schedule)},
      {"override", kernel.override_path},
      {"device", device.name},
      {"target", device.target.name()},
      {"compiler", compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : ""},
      {"image", image_origin_text(kernel)},
      {"command", prepare_command(kernel, engine)}};
  describe_choice(choice, &json);
  print_json(json);
}

Result<int> prepare(const PrepareOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                         open_engine_for(problem, engine_options, options.schedule.has_schedule()));
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChoice choice,
                         chooser.choose(problem, options.problem.sizes_to_choose_by(problem)));
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedKernel> kernel,
                         engine->prepare(problem, choice.schedule));
  LSSAR_RETURN_IF_ERROR(check_overridden({kernel}));
  log_prepared(*kernel, *engine, choice);
  if (options.json) {
    print_kernel(*kernel, *engine, choice);
  } else if (!options.execution.quiet()) {
    print_message(stdout, prepare_summary(*kernel, *engine, choice.reason) + ":");
    print_command(stdout, prepare_command(*kernel, *engine));
    print_overrides({kernel});
  }
  return static_cast<int>(kDone);
}

}  // namespace

void add_prepare(CLI::App& app, Action* action) {
  auto options = std::make_shared<PrepareOptions>();
  CLI::App* sub = app.add_subcommand("prepare", "Compile a kernel into the cache");
  options->problem.add_to(*sub);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  sub->add_flag("--json", options->json, "print one JSON object instead of text")->group("Output");
  sub->footer(
      "\nPrints the kernel, where it came from, its key in the cache, and this command with every\n"
      "option: what LSSAR_LOG=info prints of each kernel that a program prepares.\n\n"
      "Example:\n"
      "  lssar prepare --pass backward --head-dim 128 --dtype bf16 --p 15\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return prepare(*options); }; });
}

}  // namespace lssar::command
