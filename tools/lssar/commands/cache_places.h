// Which cache the `lssar cache` commands work on, and what they print of an entry.
//
// Used by cache.cpp and cache_changes.cpp. Threads: the command is single-threaded.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "cache/disk_layer.h"
#include "cache/entry_source.h"
#include "cache/maintenance.h"

namespace lssar::command {

struct CacheCommandOptions {
  std::string path;       // ls, stat, verify: a directory or pack instead of the user's directory
  std::string directory;  // --dir: instead of the user's directory
  std::string target;     // export, import: entries of this architecture only; "" = all
  std::string pack;       // export: the file to make; import: the pack or directory to read
  std::string max_size = "1G";
  double older_than_days = std::numeric_limits<double>::infinity();
  bool all = false;
  bool remove = false;
  bool json = false;
};

// The user's cache directory, or that of --dir; made if it is missing. kMissing: there is none
// (LSSAR_CACHE_DIR=none). kIoError: it cannot be used.
Result<std::unique_ptr<DiskLayer>> open_directory(const CacheCommandOptions& options,
                                                  uint64_t max_bytes = 0);

// `options.path`, else the directory.
Result<std::unique_ptr<EntrySource>> open_place(const CacheCommandOptions& options);

// What an entry's metadata says, as far as it can be read: kernel, target, image, compiler.
struct EntryTitle {
  std::string kernel = "?", target = "?", image = "?", compiler = "?";
};
EntryTitle title_of(const CacheEntry& entry);

// Key, size, stamp, title and problem.
nlohmann::json to_json(const CheckedEntry& checked);

std::string size_text(uint64_t bytes);   // "31.2 KiB"
std::string time_text(int64_t time_ns);  // "2026-01-31 23:59:58Z"; 0: "-"

// The same for a problem with a part of the work only.
void print_problem(const std::string& text);

// cache_changes.cpp
Result<int> verify_cache(const CacheCommandOptions& options);
Result<int> prune_cache(const CacheCommandOptions& options);
Result<int> export_cache(const CacheCommandOptions& options);
Result<int> import_cache(const CacheCommandOptions& options);

}  // namespace lssar::command
