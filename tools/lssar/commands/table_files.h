// The subcommands of `lssar table` that handle whole files: export, import, merge, prune. Each
// prints what it did.
//
// Used by table.cpp. Threads: the command is single-threaded.
#pragma once

#include <string>
#include <vector>

#include "autotune/table/tuning_table.h"
#include "base/status.h"

namespace lssar::command {

// --table must be a file, not standard output.
Status check_table_path(const std::string& path);

bool is_missing(const std::string& path);

// kIoError: the file is missing. Names on standard error the lines that are no records.
Result<TuningTable> load_existing(const std::string& path);

// `output` "-": standard output. `only_chosen`: without the candidates that lost.
Result<int> export_table(const std::string& path, const std::string& output, bool only_chosen);
Result<int> import_table(const std::string& path, const std::string& from);
Result<int> merge_tables(const std::vector<std::string>& inputs, const std::string& output);

struct PruneOptions {
  bool keep_backup = true;
  bool dry_run = false;
};
Result<int> prune_table(const std::string& path, const PruneOptions& options);

}  // namespace lssar::command
