// lssar table: shows what was tuned, and moves it between machines.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "autotune/model/schedule_choice.h"
#include "autotune/table/tuning_table.h"
#include "cache/location.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/commands/table_files.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

struct TableOptions {
  std::string path;  // "": the user's
  bool json = false;
  std::vector<std::string> words;   // of show
  std::vector<std::string> inputs;  // of import, merge
  std::string output;
  bool only_chosen = false;
  bool no_backup = false;
  bool dry_run = false;
};

Result<std::string> path_of(const TableOptions& options) {
  LSSAR_RETURN_IF_ERROR(check_table_path(options.path));
  if (!options.path.empty()) return options.path;
  const std::string path = default_table_path(find_cache_location("").directory);
  if (!path.empty()) return path;
  return invalid_argument(
      "no tuning table: LSSAR_TUNING_TABLE is none, or there is no cache "
      "directory: give one with --table");
}

// The user's own table need not exist yet.
Result<TuningTable> load(const TableOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::string path, path_of(options));
  if (options.path.empty() && is_missing(path)) {
    if (!options.json) print_text("{}: not there yet\n", path);
    return TuningTable();
  }
  return load_existing(path);
}

std::string machine_text(const Machine& machine) {
  const std::string device = printable_field(machine.device);
  const std::string target = printable_field(machine.target);
  return machine.num_sms == 0 ? fmt::format("{} {}", device, target)
                              : fmt::format("{} {} {} SMs", device, target, machine.num_sms);
}

std::string time_text(const TuningRecord& record) {
  std::string text = fmt::format("{} {:.4g} ms", evidence_name(record.evidence), record.ms);
  if (record.spread_ms > 0) text += fmt::format(" +- {:.2g}", record.spread_ms);
  return text;
}

const char* state_text(RecordState state) {
  switch (state) {
    case RecordState::kCurrent:
      return "";
    case RecordState::kIllegal:
      return "  NOT USED: not legal any more";
    case RecordState::kStale:
      return "  NOT USED: of another generator";
  }
  return "";
}

// The winner of every bucket and GPU: the latest one.
using WinnerKey = std::tuple<std::string, std::string, std::string>;
std::map<WinnerKey, const TuningRecord*> winners(const TuningTable& table) {
  std::map<WinnerKey, const TuningRecord*> list;
  for (const TuningRecord& record : table.records()) {
    if (!record.chosen) continue;
    const TuningRecord*& one = list[{to_string(record.bucket), machine_text(record.machine),
                                     evidence_name(record.evidence)}];
    if (one == nullptr || one->time <= record.time) one = &record;
  }
  return list;
}

Result<int> list_table(const TableOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load(options));
  const auto list = winners(table);
  if (options.json) {
    nlohmann::json lines = nlohmann::json::array();
    for (const auto& [key, record] : list) lines.push_back(to_json(*record));
    print_json(lines);
    return static_cast<int>(kDone);
  }
  for (const auto& [key, record] : list) {
    print_text("{}  {}  {}  {}  {}{}\n", std::get<0>(key), std::get<1>(key), time_text(*record),
               record->time, to_string(record->schedule), state_text(record_state(*record)));
  }
  print_text("{} buckets, {} records\n", list.size(), table.records().size());
  return static_cast<int>(kDone);
}

void show_record(const TuningRecord& record) {
  print_text("{} {}  {}  {}\n", record.chosen ? "*" : " ", verdict_name(record.verdict),
             record.ms > 0 ? time_text(record) : "not timed", to_string(record.schedule));
  if (!record.reason.empty()) print_text("    reason    {}\n", printable_field(record.reason));
  std::string terms;
  for (const auto& [name, ms] : record.terms) {
    terms += fmt::format(", {} {:.3g}", printable_field(name), ms);
  }
  print_text("    model     {:.4g} ms{}\n", record.estimate_ms, terms);
  print_text("    kernel    {} registers, {} bytes spilled, {} bytes of shared memory, source {}\n",
             record.registers, record.spill_bytes, record.shared_bytes, record.source_hash);
  print_text("    error     {:.3g}, the plain kernel's {:.3g}\n", record.error,
             record.baseline_error);
  const Machine& machine = record.machine;
  print_text("    measured  {} launches, {}, driver \"{}\", {}, {}{}\n", record.samples, record.time,
             printable_field(machine.driver), printable_field(machine.compiler),
             printable_field(record.search), state_text(record_state(record)));
}

// All candidates of the buckets that match every word, the fastest first.
Result<int> show_table(const TableOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load(options));
  std::map<std::string, std::vector<const TuningRecord*>> groups;
  for (const TuningRecord& record : table.records()) {
    const std::string name = to_string(record.bucket) + "  " + machine_text(record.machine);
    const bool fits =
        std::all_of(options.words.begin(), options.words.end(),
                    [&](const std::string& word) { return name.find(word) != std::string::npos; });
    if (fits) groups[name].push_back(&record);
  }
  nlohmann::json lines = nlohmann::json::array();
  for (auto& [name, records] : groups) {
    std::stable_sort(records.begin(), records.end(), [](const auto* a, const auto* b) {
      const auto rank = [](const TuningRecord& r) { return std::pair(!(r.ms > 0), r.ms); };
      return rank(*a) < rank(*b);
    });
    if (!options.json) print_text("{}\n", name);
    for (const TuningRecord* record : records) {
      if (options.json) {
        lines.push_back(to_json(*record));
      } else {
        show_record(*record);
      }
    }
  }
  if (options.json) {
    print_json(lines);
  } else if (groups.empty()) {
    print_text("no record of such a bucket among {}\n", table.records().size());
  }
  return static_cast<int>(kDone);
}

using Work = std::function<Result<int>(const TableOptions&)>;

CLI::App* add_one(CLI::App* sub, const char* name, const char* what,
                  const std::shared_ptr<TableOptions>& options, Action* action, Work work) {
  CLI::App* one = sub->add_subcommand(name, what);
  one->footer("\n" + exit_code_help());  // else the command's, which has its example
  one->callback([options, action, work = std::move(work)] {
    *action = [options, work] { return work(*options); };
  });
  return one;
}

}  // namespace

void add_table(CLI::App& app, Action* action) {
  auto options = std::make_shared<TableOptions>();
  CLI::App* sub = app.add_subcommand("table", "Show, export, import and merge what was tuned");
  sub->require_subcommand(0, 1);  // reports none here; an unknown one is reported by its name
  sub->callback([action] {
    if (*action) return;
    *action = []() -> Result<int> {
      return invalid_argument(
          "table: no subcommand: allowed are ls, show, export, import, merge and prune");
    };
  });
  sub->fallthrough();
  sub->add_option("--table", options->path,
                  "the tuning table (default: LSSAR_TUNING_TABLE, else tuning.jsonl in the cache "
                  "directory)")
      ->type_name("FILE");

  CLI::App* ls = add_one(sub, "ls", "The winner of every bucket and GPU, a line each", options,
                         action, list_table);
  CLI::App* show = add_one(sub, "show", "All candidates of buckets, with what is known of them",
                           options, action, show_table);
  show->add_option("WORDS", options->words,
                   "all in the bucket's line of ls, e.g. backward \"d 64\"")
      ->type_name("WORD...");
  for (CLI::App* one : {ls, show}) one->add_flag("--json", options->json, "as JSON, every field");

  CLI::App* to_file = add_one(
      sub, "export", "Write the table in canonical order: for review, and for other machines",
      options, action, [](const TableOptions& o) -> Result<int> {
        LSSAR_ASSIGN_OR_RETURN(const std::string path, path_of(o));
        return export_table(path, o.output, o.only_chosen);
      });
  to_file->add_option("FILE", options->output, "- for standard output")
      ->required()
      ->type_name("FILE");
  to_file->add_flag("--chosen", options->only_chosen, "winners only: all that plans look at");

  CLI::App* from_file = add_one(sub, "import", "Add the records of a file that are not there yet",
                                options, action, [](const TableOptions& o) -> Result<int> {
                                  LSSAR_ASSIGN_OR_RETURN(const std::string path, path_of(o));
                                  return import_table(path, o.inputs.front());
                                });
  from_file->add_option("FILE", options->inputs, "another table")
      ->required()
      ->expected(1)
      ->type_name("FILE");

  CLI::App* merge =
      add_one(sub, "merge", "Write the records of all FILES into one", options, action,
              [](const TableOptions& o) { return merge_tables(o.inputs, o.output); });
  merge->add_option("FILES", options->inputs, "tables")->required()->type_name("FILE...");
  merge->add_option("-o,--output", options->output, "- for standard output")
      ->required()
      ->type_name("FILE");

  CLI::App* prune =
      add_one(sub, "prune", "Drop records that this version cannot use any more", options, action,
              [](const TableOptions& o) -> Result<int> {
                LSSAR_ASSIGN_OR_RETURN(const std::string path, path_of(o));
                return prune_table(path, {.keep_backup = !o.no_backup, .dry_run = o.dry_run});
              });
  prune->add_flag("--no-backup", options->no_backup, "do not keep the old file as FILE.bak");
  prune->add_flag("--dry-run", options->dry_run, "only say what would be dropped");

  sub->footer(
      "\nExample: one table for all machines of a cluster\n"
      "  lssar table merge node1.jsonl node2.jsonl -o tuning.jsonl\n"
      "  export LSSAR_TUNING_TABLE=$PWD/tuning.jsonl\n\n" +
      exit_code_help());
}

}  // namespace lssar::command
