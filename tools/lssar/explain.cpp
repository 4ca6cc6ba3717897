// lssar explain: why this kernel for this problem, and what else was considered.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/tuner.h"
#include "base/file.h"
#include "cache/location.h"
#include "inspect/explanation_text.h"
#include "tools/lssar/exit_code.h"
#include "tools/lssar/problem_options.h"
#include "tools/lssar/subcommands.h"

namespace lssar::command {
namespace {

struct ExplainOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  std::string determinism = "repeatable";
  std::string table;
  size_t shown = 10;
  bool json = false;
  bool no_compile = false;
};

// The sizes as far as they are given; the rest as the tuner takes them.
Sizes sizes_of(const ProblemOptions& options, const Problem& problem) {
  const Result<Sizes> given = options.sizes();
  return given.ok() ? *given : typical_sizes(problem);
}

Result<TuningTable> load_table(const std::string& configured) {
  const std::string path =
      configured.empty() ? default_table_path(find_cache_location("").directory) : configured;
  if (path.empty() || path == "none") return TuningTable();
  return TuningTable::load(path);
}

Result<ExplanationRequest> make_request(const ExplainOptions& options, Engine& engine,
                                        const TuningTable& table) {
  const DeviceInfo& device = engine.device().info();
  ExplanationRequest request;
  LSSAR_ASSIGN_OR_RETURN(request.problem, options.problem.problem());
  request.sizes = sizes_of(options.problem, request.problem);
  LSSAR_ASSIGN_OR_RETURN(request.determinism, parse_determinism(options.determinism));
  request.target = device.target;
  const auto compiler = engine.compiler();
  request.machine =
      machine_of(device, compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : "");
  LSSAR_ASSIGN_OR_RETURN(request.gpu, gpu_model(request.machine.target, request.machine.device,
                                                request.machine.num_sms));
  LSSAR_ASSIGN_OR_RETURN(request.given, options.schedule.schedule(request.problem, request.target));
  request.tables = {&table, &builtin_table()};
  return request;
}

bool terminal_shows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

Result<int> explain_problem(const ExplainOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::open(engine_options));
  LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load_table(options.table));
  LSSAR_ASSIGN_OR_RETURN(const ExplanationRequest request, make_request(options, *engine, table));
  const Explanation explanation = explain(request);

  std::optional<KernelFacts> facts;
  if (!options.no_compile) {
    LSSAR_ASSIGN_OR_RETURN(facts,
                           kernel_facts(*engine, request.problem, explanation.choice.schedule));
  }
  const KernelFacts* const known = facts ? &*facts : nullptr;
  if (options.json) {
    fmt::print("{}\n", explanation_json(explanation, request, known, options.shown).dump(2));
  } else {
    fmt::print("{}", explanation_text(explanation, request, known,
                                      {options.shown, terminal_shows_unicode()}));
  }
  return static_cast<int>(kDone);
}

}  // namespace

void add_explain(CLI::App& app, Action* action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* sub =
      app.add_subcommand("explain", "Why a problem gets its schedule, and what else there was");
  options->problem.add_to(*sub);
  options->schedule.add_to(*sub, "architecture to explain for (default: the device's own)");
  options->execution.add_to(*sub);
  const auto add = [&](const std::string& name, auto& value, const std::string& help) {
    return sub->add_option(name, value, help)->group("Explanation")->capture_default_str();
  };
  add("--determinism", options->determinism,
      "repeatable: gradients have the same bits in every run; any: sums in any order are welcome");
  add("--table", options->table,
      "tuning table (default: LSSAR_TUNING_TABLE, else tuning.jsonl in the cache directory)");
  add("--shown", options->shown, "candidates that are listed, the best first");
  sub->add_flag("--json", options->json, "a JSON object on standard output")->group("Explanation");
  sub->add_flag("--no-compile", options->no_compile, "say nothing that only a compiler knows")
      ->group("Explanation");
  sub->footer(
      "\nThe schedule and where it came from, its estimate by resource, its kernels, and every "
      "other\n"
      "combination of the search space with the rule, the time or the estimate that ruled it "
      "out.\n\n"
      "Example:\n"
      "  lssar explain --head-dim 128 --seq 4096 --heads 16 --device virtual --target sm_90a\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return explain_problem(*options); }; });
}

}  // namespace lssar::command
