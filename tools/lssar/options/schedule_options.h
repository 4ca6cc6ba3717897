// The options that decide a problem's schedule, the same in every subcommand that makes a kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "autotune/model/schedule_chooser.h"
#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "codegen/schedule.h"
#include "codegen/target.h"
#include "runtime/engine.h"

namespace lssar::command {

class ScheduleOptions {
 public:
  void add_to(CLI::App& app, const std::string& target_help);

  // Chooses as a plan does: --schedule, the user's tuning table, the shipped table, the default.
  // With --untuned only --schedule and the default. Errors: those of load_table; a --schedule that
  // cannot be read. choose() reports wrong fields in it.
  Result<ScheduleChooser> chooser(Engine& engine) const;
  // The same without a device: for what `lssar prepare` would make here for the target.
  Result<ScheduleChooser> chooser(const Target& target) const;

  // The table of --table, which must exist. Otherwise the user's; if it cannot be read, it is
  // empty, with a warning. With --untuned or "none" it is empty.
  Result<std::shared_ptr<const TuningTable>> load_table(TableContent content) const;
  // --schedule; nothing if it was not given.
  Result<std::optional<Schedule>> given(const Problem& problem, const Target& target) const;
  Result<Determinism> determinism() const { return parse_determinism(determinism_); }

  const std::string& target_name() const { return target_; }
  const std::string& table_name() const { return table_; }  // "": not given
  bool has_schedule() const { return !schedule_.empty(); }
  bool is_untuned() const { return is_untuned_; }

 private:
  Result<ChooserOptions> chooser_options() const;
  Result<std::optional<nlohmann::json>> given_json() const;
  std::string given_name() const;

  std::string target_;
  std::string schedule_;  // a file, or the JSON itself
  std::string table_;
  std::string determinism_ = "repeatable";
  bool is_untuned_ = false;
};

// Prints the line "schedule: tuned (...)".
void print_choice(std::FILE* stream, const ScheduleChoice& choice);

}  // namespace lssar::command
