// ScheduleChooser: choose_schedule with everything that one caller's choices have in common.
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

// The table that a user's schedules are looked up in. `configured`: a path, "none", or "" for
// default_table_path(cache_directory). Never fails: a file that cannot be read is an empty table,
// and a warning in the log.
std::shared_ptr<const TuningTable> load_user_table(const std::string& configured,
                                                   const std::string& cache_directory,
                                                   TableContent content = TableContent::kWinners);

struct ChooserOptions {
  Determinism determinism = Determinism::kRepeatable;
  std::shared_ptr<const TuningTable> user_table;  // null: none is asked
  bool asks_shipped = true;             // the records that come with the library, after it
  std::optional<nlohmann::json> given;  // fields of a schedule, over the default's
  std::string given_name;               // what errors call that; "": nothing
};

class ScheduleChooser {
 public:
  ScheduleChooser(const Target& target, const Machine& machine, ChooserOptions options)
      : target_(target), machine_(machine), options_(std::move(options)) {}
  // For what runs on the engine's device.
  ScheduleChooser(Engine& engine, ChooserOptions options);

  // The schedule is not validated where it is given. Errors: those of schedule_for.
  // REQUIRES: validate(problem).ok().
  Result<ScheduleChoice> choose(const Problem& problem, const Sizes& sizes) const;

  struct PassChoice {
    Problem problem;
    ScheduleChoice choice;
  };
  // What a call of the problem's pass runs: for a backward the forward for training first, which
  // takes epsilon from where the backward does.
  Result<std::vector<PassChoice>> choose_passes(const Problem& problem, const Sizes& sizes) const;

 private:
  std::vector<const TuningTable*> tables() const;

  Target target_;
  Machine machine_;
  ChooserOptions options_;
};

// Whether a table has records that may decide: without them, what they would be compared by (the
// device, its compiler) need not be opened.
bool has_winner(const ChooserOptions& options);

}  // namespace lssar
