// The options that decide which schedule a problem gets, the same in every subcommand that makes a
// kernel.
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

  // Chooses as a plan does: --schedule, the user's tuning table, the records that come with the
  // library, the default; with --untuned only the first and the last. Errors: of load_table, a
  // --schedule that cannot be read; what is wrong with its fields is said by choose().
  Result<ScheduleChooser> chooser(Engine& engine) const;
  // The same for what is only made, as for what `lssar prepare` would make here for the target.
  Result<ScheduleChooser> chooser(const Target& target) const;

  // The table of --table, which must be there; else the user's, where one that cannot be read is
  // empty, with a warning. --untuned and "none": an empty one.
  Result<std::shared_ptr<const TuningTable>> load_table(TableContent content) const;
  // --schedule; nothing where it was not given.
  Result<std::optional<Schedule>> given(const Problem& problem, const Target& target) const;
  Result<Determinism> determinism() const { return parse_determinism(determinism_); }

  const std::string& target_name() const { return target_; }
  const std::string& table_name() const { return table_; }  // "": not given
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

// "schedule: tuned (...)", a line.
void print_choice(std::FILE* stream, const ScheduleChoice& choice);

}  // namespace lssar::command
