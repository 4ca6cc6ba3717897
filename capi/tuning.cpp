#include "capi/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "autotune/model/schedule_choice.h"
#include "base/log.h"

namespace lssar::capi {
namespace {

#define LSSAR_SAME_ORIGIN(c_name, cpp_name)                                                  \
  static_assert(                                                                             \
      static_cast<int>(LSSAR_ORIGIN_##c_name) == static_cast<int>(ScheduleOrigin::cpp_name), \
      "lssar_schedule_origin and ScheduleOrigin are one enumeration")
LSSAR_SAME_ORIGIN(GIVEN, kGiven);
LSSAR_SAME_ORIGIN(EXACT, kExact);
LSSAR_SAME_ORIGIN(NEAREST, kNearest);
LSSAR_SAME_ORIGIN(ARCHITECTURE, kArchitecture);
LSSAR_SAME_ORIGIN(PREDICTED, kPredicted);
LSSAR_SAME_ORIGIN(BUILT_IN, kBuiltIn);
#undef LSSAR_SAME_ORIGIN

constexpr char kNone[] = "none";

bool has_winner(const TuningTable& table) {
  return std::any_of(table.records().begin(), table.records().end(),
                     [](const TuningRecord& record) { return record.chosen; });
}

// "" where there is none, which prepare will say.
std::string compiler_text(Engine& engine) {
  const auto compiler = engine.compiler();
  return compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : "";
}

}  // namespace

std::shared_ptr<const TuningTable> load_context_table(const std::string& configured,
                                                      const std::string& cache_directory) {
  const std::string path = configured.empty() ? default_table_path(cache_directory) : configured;
  if (path.empty() || configured == kNone) return std::make_shared<TuningTable>();
  Result<TuningTable> table = TuningTable::load(path, TableContent::kWinners);
  if (!table.ok()) {
    log(LogLevel::kWarning, fmt::format("tuning table not used: {}", table.status().message()));
    return std::make_shared<TuningTable>();
  }
  if (const TableDefects& defects = table->defects(); defects.malformed_lines > 0) {
    log(LogLevel::kWarning,
        fmt::format("tuning table '{}': {} lines are no records and are passed over; {}", path,
                    defects.malformed_lines, defects.first));
  }
  log(LogLevel::kDebug,
      fmt::format("tuning table '{}': {} winners", path, table->records().size()));
  return std::make_shared<TuningTable>(std::move(table).value());
}

std::function<ScheduleChoice(const Problem&)> schedule_chooser(
    std::shared_ptr<Engine> engine, std::shared_ptr<const TuningTable> table,
    const PlanRequest& request) {
  std::vector<const TuningTable*> tables = {&builtin_table()};
  if (request.tuning != LSSAR_TUNING_BUILT_IN) tables.insert(tables.begin(), table.get());
  // The compiler matters among records only, and may be slow to open.
  const bool may_matter =
      std::any_of(tables.begin(), tables.end(), [](const auto* one) { return has_winner(*one); });
  const Machine machine =
      machine_of(engine->device().info(), may_matter ? compiler_text(*engine) : "");
  return [engine = std::move(engine), table = std::move(table), tables = std::move(tables), machine,
          sizes = request.sizes, determinism = request.determinism](const Problem& problem) {
    const Target& target = engine->device().info().target;
    ScheduleChoice choice = choose_schedule(problem, sizes, determinism, target, machine, tables);
    log(LogLevel::kDebug, fmt::format("schedule for {}: {}", to_string(problem), choice.reason));
    return choice;
  };
}

ScheduleTexts::ScheduleTexts(const Plan& plan) {
  for (const Pass pass : kAllPasses) {
    for (const bool is_fast : {false, true}) {
      const ScheduleChoice* choice = plan.choice(pass, is_fast);
      if (choice == nullptr) continue;
      texts_[static_cast<size_t>(pass)][is_fast ? 1 : 0] = {
          true, static_cast<int32_t>(choice->origin), choice->reason,
          to_json(choice->schedule).dump()};
    }
  }
}

Status ScheduleTexts::describe(Pass pass, lssar_schedule_info* info) const {
  const auto& [unaligned, aligned] = texts_[static_cast<size_t>(pass)];
  if (!unaligned.exists && !aligned.exists) {
    return {StatusCode::kNotPrepared,
            fmt::format("passes: this plan was not made for {}", pass_name(pass))};
  }
  const Text& first = aligned.exists ? aligned : unaligned;
  const bool has_second = aligned.exists && unaligned.exists;
  info->origin = first.origin;
  info->reason = first.reason.c_str();
  info->schedule_json = first.schedule_json.c_str();
  info->unaligned_origin = has_second ? unaligned.origin : first.origin;
  info->unaligned_reason = has_second ? unaligned.reason.c_str() : nullptr;
  info->unaligned_schedule_json = has_second ? unaligned.schedule_json.c_str() : nullptr;
  return {};
}

}  // namespace lssar::capi
