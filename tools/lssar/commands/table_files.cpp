#include "tools/lssar/commands/table_files.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "autotune/model/schedule_choice.h"
#include "base/output_file.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/message_stream.h"
#include "tools/lssar/terminal/print_text.h"
#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {
namespace {

// Prints to standard error if the table itself goes to standard output.
void say(const std::string& output, const std::string& line) {
  print_text(message_stream(output), "{}\n", line);
}

std::string defects_text(const TableDefects& defects) {
  if (defects.malformed_lines == 0) return "";
  return fmt::format("{} lines are no records ({})", defects.malformed_lines, defects.first);
}

struct StateCounts {
  int current = 0, illegal = 0, stale = 0;

  void add(RecordState state) {
    ++(state == RecordState::kCurrent ? current : state == RecordState::kStale ? stale : illegal);
  }
};

// A file with only lines that are no records is probably not the file that the user meant.
Status check_has_records(const TuningTable& table, const std::string& path) {
  if (!table.records().empty() || table.defects().malformed_lines == 0) return {};
  return invalid_argument(
      fmt::format("'{}' has no record: {}", path, defects_text(table.defects())));
}

}  // namespace

Status check_table_path(const std::string& path) {
  if (!is_standard_output(path)) return {};
  return invalid_argument(
      "--table = -: a table is read and written, so it cannot be standard output: allowed is a file; "
      "lssar table export - prints a table");
}

bool is_missing(const std::string& path) {
  std::error_code error;  // for example of a loop of links; reading it names the error
  return !std::filesystem::exists(path, error) && !error;
}

Result<TuningTable> load_existing(const std::string& path) {
  if (is_missing(path)) {
    return io_error(fmt::format("tuning table '{}' is missing", path));
  }
  LSSAR_ASSIGN_OR_RETURN(TuningTable table, TuningTable::load(path));
  LSSAR_RETURN_IF_ERROR(check_has_records(table, path));
  if (table.defects().malformed_lines > 0) {
    print_message(stderr, fmt::format("{}: {}", path, defects_text(table.defects())));
  }
  return table;
}

Result<int> export_table(const std::string& path, const std::string& output, bool only_chosen) {
  size_t num_exported = 0, num_records = 0;
  LSSAR_RETURN_IF_ERROR(write_table_text(output, [&]() -> Result<std::string> {
    LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load_existing(path));
    TuningTable exported;
    for (const TuningRecord& record : table.records()) {
      if (!only_chosen || record.chosen) exported.add(record);
    }
    num_exported = exported.records().size();
    num_records = table.records().size();
    return exported.canonical_text();
  }));
  say(output, fmt::format("exported {} of {} records", num_exported, num_records));
  return static_cast<int>(kDone);
}

Result<int> import_table(const std::string& path, const std::string& from) {
  LSSAR_ASSIGN_OR_RETURN(const TuningTable given, load_existing(from));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<TuningRecord> added,
                         append_missing_records(path, given));
  StateCounts counts;
  for (const TuningRecord& record : added) counts.add(record_state(record));

  print_text("added {}, known already {}, malformed {}\n", added.size(),
             given.records().size() - added.size(), given.defects().malformed_lines);
  if (counts.stale + counts.illegal > 0) {
    print_text("of those added this version cannot use {}: {} of another generator, {} not legal\n",
               counts.stale + counts.illegal, counts.stale, counts.illegal);
  }
  return static_cast<int>(kDone);
}

Result<int> merge_tables(const std::vector<std::string>& inputs, const std::string& output) {
  TuningTable merged;
  LSSAR_RETURN_IF_ERROR(write_table_text(output, [&]() -> Result<std::string> {
    for (const std::string& input : inputs) {
      LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load_existing(input));
      const int added = merged.merge(table);
      say(output,
          fmt::format("{}: {} records, {} of them new", input, table.records().size(), added));
    }
    return merged.canonical_text();
  }));
  say(output, fmt::format("{}: {} records", output, merged.records().size()));
  return static_cast<int>(kDone);
}

Result<int> prune_table(const std::string& path, const PruneOptions& options) {
  StateCounts counts;
  TableDefects defects;
  const auto prune = [&](const TuningTable& table) {
    defects = table.defects();
    TuningTable kept;
    for (const TuningRecord& record : table.records()) {
      const RecordState state = record_state(record);
      counts.add(state);
      if (state == RecordState::kCurrent) kept.add(record);
    }
    return kept;
  };
  const std::string backup = options.keep_backup && !options.dry_run ? path + ".bak" : "";
  bool has_changed = false;
  if (options.dry_run) {
    LSSAR_ASSIGN_OR_RETURN(const TuningTable table, load_existing(path));
    prune(table);
  } else {
    LSSAR_ASSIGN_OR_RETURN(has_changed, rewrite_table(path, backup, prune));
  }
  print_text("{} {}, {} {}: {} of another generator, {} not legal, {} lines that are no records\n",
             options.dry_run ? "would keep" : "kept", counts.current,
             options.dry_run ? "drop" : "dropped",
             counts.stale + counts.illegal + defects.malformed_lines, counts.stale, counts.illegal,
             defects.malformed_lines);
  if (has_changed && !backup.empty()) print_text("backup: {}\n", backup);
  return static_cast<int>(kDone);
}

}  // namespace lssar::command
