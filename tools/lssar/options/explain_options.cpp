#include "tools/lssar/options/explain_options.h"

#include <limits>
#include <string>
#include <utility>

#include "tools/lssar/options/engine_to_compile.h"
#include "tools/lssar/options/number_option.h"

namespace lssar::command {
void ExplainOptions::add_to(CLI::App& app, const std::string& group, size_t default_shown) {
  shown = default_shown;
  problem.add_to(app);
  schedule.add_to(app, "architecture to explain for (default: the device's own)");
  execution.add_to(app);
  add_whole(app, "--shown", shown, "candidates that are listed, the best first", size_t{0},
            std::numeric_limits<size_t>::max())
      ->group(group)
      ->default_str(std::to_string(shown));
  app.add_flag("--no-compile", no_compile, "say nothing that only a compiler knows")->group(group);
}

Result<std::unique_ptr<Engine>> ExplainOptions::open_engine() const {
  LSSAR_ASSIGN_OR_RETURN(EngineOptions options, execution.engine_options(schedule.target_name()));
  options.uses_overrides = false;  // explains the generated kernel
  return open_engine_to_compile(std::move(options));
}

Result<ExplanationRequest> ExplainOptions::request(Engine& engine, const TuningTable& own) const {
  const DeviceInfo& device = engine.device().info();
  ExplanationRequest request;
  LSSAR_ASSIGN_OR_RETURN(request.problem, problem.problem());
  request.sizes = problem.sizes_to_choose_by(request.problem);
  LSSAR_ASSIGN_OR_RETURN(request.determinism, schedule.determinism());
  request.target = device.target;
  const auto compiler = engine.compiler();
  request.machine =
      machine_of(device, compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : "");
  LSSAR_ASSIGN_OR_RETURN(request.model, device_model(request.machine));
  LSSAR_ASSIGN_OR_RETURN(request.given, schedule.given(request.problem, request.target));
  if (!schedule.is_untuned()) request.tables = {&own, &shipped_table()};
  return request;
}

}  // namespace lssar::command
