// ScheduleChooser: choose_schedule with what all choices of one caller have in common.
//
// Used by the C API for the plans of a context, and by every subcommand. Threads: any may choose.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"
#include "runtime/schedule_origin.h"

namespace lssar {

// The table of the user's own schedules. `configured` is a path, "none", or "" for
// default_table_path(cache_directory). Never fails: a file that cannot be read is an empty table,
// and a warning in the log.
std::shared_ptr<const TuningTable> load_user_table(const std::string& configured,
                                                   const std::string& cache_directory,
                                                   TableContent content = TableContent::kWinners);

// Warns in the log if lines of the table's file are no records.
void warn_of_defects(const TuningTable& table, const std::string& path);

struct ChooserOptions {
  Determinism determinism = Determinism::kRepeatable;
  std::shared_ptr<const TuningTable> user_table;  // null: not used
  bool asks_shipped = true;                       // use the shipped records after it
  std::optional<nlohmann::json> given;            // fields of a schedule, over the default's
  std::string given_name;                         // its name in errors; "": nothing is given
};

class ScheduleChooser {
 public:
  ScheduleChooser(const Target& target, const Machine& machine, ChooserOptions options)
      : target_(target), machine_(machine), options_(std::move(options)) {}
  // For problems that run on the engine's device.
  ScheduleChooser(Engine& engine, ChooserOptions options);

  // Does not validate a given schedule. Errors: those of schedule_for. REQUIRES:
  // validate(problem).ok().
  Result<ScheduleChoice> choose(const Problem& problem, const Sizes& sizes) const;

  struct PassChoice {
    Problem problem;
    ScheduleChoice choice;
  };
  // What a call of the problem's pass runs. For a backward the forward for training comes first; it
  // saves epsilon in the form that the backward reads.
  Result<std::vector<PassChoice>> choose_passes(const Problem& problem, const Sizes& sizes) const;

 private:
  std::vector<const TuningTable*> tables() const;

  Target target_;
  Machine machine_;
  ChooserOptions options_;
};

// Whether a table has records that may decide. If not, the device and its compiler, which these
// would be compared by, need not be opened.
bool has_winner(const ChooserOptions& options);

}  // namespace lssar
