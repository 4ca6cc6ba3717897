// lssar explain: why this kernel for this problem, and what else was considered.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inspect/explanation_text.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/explain_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

bool terminal_shows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

Result<int> explain_problem(const ExplainOptions& options, bool json) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, options.open_engine());
  LSSAR_ASSIGN_OR_RETURN(const auto table, options.schedule.load_table(TableContent::kAll));
  LSSAR_ASSIGN_OR_RETURN(const ExplanationRequest request, options.request(*engine, *table));
  const Explanation explanation = explain(request);

  std::optional<KernelFacts> facts;
  if (!options.no_compile) {
    LSSAR_ASSIGN_OR_RETURN(facts,
                           kernel_facts(*engine, request.problem, explanation.choice.schedule));
  }
  const KernelFacts* const known = facts ? &*facts : nullptr;
  if (json) {
    print_json(explanation_json(explanation, request, known, options.shown));
  } else {
    print_text("{}", explanation_text(explanation, request, known,
                                      {options.shown, terminal_shows_unicode()}));
  }
  return static_cast<int>(kDone);
}

}  // namespace

void add_explain(CLI::App& app, Action* action) {
  auto options = std::make_shared<ExplainOptions>();
  auto json = std::make_shared<bool>(false);
  constexpr size_t kShown = 10;
  CLI::App* sub =
      app.add_subcommand("explain", "Why a problem gets its schedule, and what else there was");
  options->add_to(*sub, "Explanation", kShown);
  sub->add_flag("--json", *json, "a JSON object on standard output")->group("Explanation");
  sub->footer(
      "\nThe schedule and where it came from, its estimate by resource, its kernels, and every "
      "other\n"
      "combination of the search space with the rule, the time or the estimate that ruled it "
      "out.\n\n"
      "Example:\n"
      "  lssar explain --head-dim 128 --seq 4096 --heads 16 --device virtual --target sm_90a\n\n" +
      exit_code_help());
  sub->callback([options, json, action] {
    *action = [options, json] { return explain_problem(*options, *json); };
  });
}

}  // namespace lssar::command
