#include "autotune/model/schedule_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "autotune/model/schedule_choice.h"
#include "base/log.h"

namespace lssar {
namespace {

bool table_has_winner(const TuningTable& table) {
  return std::any_of(table.records().begin(), table.records().end(),
                     [](const TuningRecord& record) { return record.chosen; });
}

// "" if there is no compiler; prepare will report that.
std::string compiler_text(Engine& engine) {
  const auto compiler = engine.compiler();
  return compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : "";
}

}  // namespace

void warn_of_defects(const TuningTable& table, const std::string& path) {
  const TableDefects& defects = table.defects();
  if (defects.malformed_lines == 0) return;
  log(LogLevel::kWarning,
      fmt::format("tuning table '{}': {} lines are no records and are passed over; {}", path,
                  defects.malformed_lines, defects.first));
}

std::shared_ptr<const TuningTable> load_user_table(const std::string& configured,
                                                   const std::string& cache_directory,
                                                   TableContent content) {
  const std::string path = configured.empty() ? default_table_path(cache_directory) : configured;
  if (path.empty() || configured == "none") return std::make_shared<TuningTable>();
  Result<TuningTable> table = TuningTable::load(path, content);
  if (!table.ok()) {
    log(LogLevel::kWarning, fmt::format("tuning table not used: {}", table.status().message()));
    return std::make_shared<TuningTable>();
  }
  warn_of_defects(*table, path);
  log(LogLevel::kDebug,
      fmt::format("tuning table '{}': {} records", path, table->records().size()));
  return std::make_shared<TuningTable>(std::move(table).value());
}

bool has_winner(const ChooserOptions& options) {
  return (options.user_table != nullptr && table_has_winner(*options.user_table)) ||
         (options.asks_shipped && table_has_winner(shipped_table()));
}

ScheduleChooser::ScheduleChooser(Engine& engine, ChooserOptions options)
    : target_(engine.device().info().target),
      machine_(
          machine_of(engine.device().info(), has_winner(options) ? compiler_text(engine) : "")),
      options_(std::move(options)) {}

std::vector<const TuningTable*> ScheduleChooser::tables() const {
  std::vector<const TuningTable*> tables;
  if (options_.user_table != nullptr) tables.push_back(options_.user_table.get());
  if (options_.asks_shipped) tables.push_back(&shipped_table());
  return tables;
}

Result<ScheduleChoice> ScheduleChooser::choose(const Problem& problem, const Sizes& sizes) const {
  std::optional<Schedule> given;
  if (options_.given) {
    const Result<Schedule> meant =
        schedule_for(problem, target_, *options_.given, options_.determinism);
    const std::string& name = options_.given_name;
    if (!meant.ok()) return name.empty() ? meant.status() : meant.status().with_context(name);
    given = *meant;
  }
  ScheduleChoice choice =
      choose_schedule(problem, sizes, options_.determinism, target_, machine_, tables(), given);
  log(LogLevel::kDebug, fmt::format("schedule for {}: {}", to_string(problem), choice.reason));
  return choice;
}

Result<std::vector<ScheduleChooser::PassChoice>> ScheduleChooser::choose_passes(
    const Problem& problem, const Sizes& sizes) const {
  std::vector<PassChoice> passes(1);
  passes[0].problem = problem;
  LSSAR_ASSIGN_OR_RETURN(passes[0].choice, choose(problem, sizes));
  if (problem.pass != Pass::kBackward) return passes;
  PassChoice forward;
  forward.problem = problem;
  forward.problem.pass = Pass::kForwardTrain;
  LSSAR_ASSIGN_OR_RETURN(forward.choice, choose(forward.problem, sizes));
  LSSAR_RETURN_IF_ERROR(share_epsilon(&forward.choice, passes[0].choice.schedule.epsilon,
                                      "the backward's", forward.problem, target_));
  passes.insert(passes.begin(), std::move(forward));
  return passes;
}

}  // namespace lssar
