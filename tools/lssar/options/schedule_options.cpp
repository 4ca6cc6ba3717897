#include "tools/lssar/options/schedule_options.h"

#include <utility>

#include <fmt/format.h>

#include "autotune/model/schedule_choice.h"
#include "base/file.h"
#include "base/json_text.h"
#include "cache/location.h"
#include "compile/compiler.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/cpu_pool.h"
#include "device/device.h"
#include "tools/lssar/options/options_file.h"
#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {
namespace {

Machine virtual_machine(const Target& target, const std::string& compiler) {
  DeviceInfo device;
  device.kind = "virtual";
  device.target = target;
  return machine_of(device, compiler);
}

// This CPU. Records of other CPUs of the target count as those of the same architecture.
Machine cpu_machine(const Target& target, const std::string& compiler) {
  DeviceInfo device;
  device.kind = device.id = "cpu";
  device.name = cpu_features().name;
  device.num_sms = num_available_cpus();
  device.target = target;
  return machine_of(device, compiler);
}

// A machine of the target whose tuning nobody knows.
Machine unknown_machine(const Target& target) {
  return target.is_cpu() ? cpu_machine(target, "") : virtual_machine(target, "");
}

// The machine that `lssar prepare --target` would open here.
Machine machine_for(const Target& target) {
  const auto found = open_compiler(CompilerChoice::kAuto);
  const std::string compiler = found.ok() ? (*found)->name() + " " + (*found)->version() : "";
  if (target.is_cpu()) return cpu_machine(target, compiler);
  const Result<std::vector<DeviceInfo>> gpus = list_gpus();
  if (gpus.ok() && !gpus->empty() && gpus->front().target.name() == target.name())
    return machine_of(gpus->front(), compiler);
  return virtual_machine(target, compiler);
}

}  // namespace

void ScheduleOptions::add_to(CLI::App& app, const std::string& target_help) {
  const auto add = [&](const char* name, std::string& value, const char* values,
                       const std::string& help) {
    return app.add_option(name, value, help)->type_name(values)->group("Kernel");
  };
  add("--target", target_, "ARCH", target_help);
  add("--schedule", schedule_, "FILE",
      "JSON file of schedule fields, over the default schedule; or the JSON itself");
  add("--determinism", determinism_, "repeatable|any",
      "repeatable: gradients have the same bits in every run; any: sums in any order are welcome")
      ->capture_default_str();
  CLI::Option* const table =
      add("--table", table_, "FILE",
          "tuning table that the schedule is looked up in (default: LSSAR_TUNING_TABLE, else "
          "tuning.jsonl in the cache directory); none: no such table");
  app.add_flag("--untuned", is_untuned_,
               "the default schedule, whatever tuning tables say (--schedule wins over it)")
      ->group("Kernel")
      ->excludes(table);
}

std::string ScheduleOptions::given_name() const {
  return schedule_.starts_with('{') ? "--schedule" : schedule_;
}

Result<std::optional<nlohmann::json>> ScheduleOptions::given_json() const {
  if (schedule_.empty()) return std::optional<nlohmann::json>();
  LSSAR_ASSIGN_OR_RETURN(nlohmann::json json, schedule_.starts_with('{')
                                                  ? parse_json(schedule_, "--schedule")
                                                  : read_options_file(schedule_));
  return std::optional<nlohmann::json>(std::move(json));
}

Result<std::optional<Schedule>> ScheduleOptions::given(const Problem& problem,
                                                       const Target& target) const {
  LSSAR_ASSIGN_OR_RETURN(const std::optional<nlohmann::json> json, given_json());
  if (!json) return std::optional<Schedule>();
  LSSAR_ASSIGN_OR_RETURN(const Determinism asked, determinism());
  const Result<Schedule> schedule = schedule_for(problem, target, *json, asked);
  if (!schedule.ok()) return schedule.status().with_context(given_name());
  return std::optional<Schedule>(*schedule);
}

Result<std::shared_ptr<const TuningTable>> ScheduleOptions::load_table(TableContent content) const {
  if (is_untuned_ || table_ == "none") return std::make_shared<const TuningTable>();
  if (table_.empty()) return load_user_table("", find_cache_location("").directory, content);
  LSSAR_RETURN_IF_ERROR(
      lssar::InputFile::open(table_).status());  // otherwise a missing one would read as empty
  LSSAR_ASSIGN_OR_RETURN(TuningTable table, TuningTable::load(table_, content));
  warn_of_defects(table, table_);
  return std::make_shared<const TuningTable>(std::move(table));
}

Result<ChooserOptions> ScheduleOptions::chooser_options() const {
  ChooserOptions options;
  LSSAR_ASSIGN_OR_RETURN(options.determinism, determinism());
  LSSAR_ASSIGN_OR_RETURN(options.given, given_json());
  options.given_name = given_name();
  options.asks_shipped = !is_untuned_;
  if (!is_untuned_) {
    LSSAR_ASSIGN_OR_RETURN(options.user_table, load_table(TableContent::kWinners));
  }
  return options;
}

Result<ScheduleChooser> ScheduleOptions::chooser(Engine& engine) const {
  LSSAR_ASSIGN_OR_RETURN(ChooserOptions options, chooser_options());
  return ScheduleChooser(engine, std::move(options));
}

Result<ScheduleChooser> ScheduleOptions::chooser(const Target& target) const {
  LSSAR_ASSIGN_OR_RETURN(ChooserOptions options, chooser_options());
  const Machine machine = has_winner(options) ? machine_for(target) : unknown_machine(target);
  return ScheduleChooser(target, machine, std::move(options));
}

void print_choice(std::FILE* stream, const ScheduleChoice& choice) {
  print_message(stream, "schedule: " + choice.reason);
}

}  // namespace lssar::command
