// Operations on whole caches: check every entry, copy entries into a pack or out of one. Only
// `lssar cache` uses them; no request does.
//
// Threads: no shared state. The cache may be in use at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/disk_layer.h"
#include "cache/entry_source.h"

namespace lssar {

struct CheckedEntry {
  StoredEntry stored;
  FileState state;       // of its file
  CacheEntry entry;      // valid if there is no problem
  std::string problem;   // why it is not used; "" if it is good
  bool damaged = false;  // no version of the library can read it
};

// Reads and checks every entry and passes it to `visit` with its bytes. An error of `visit` ends
// the loop. An entry that vanishes meanwhile is reported with a problem, like any other that cannot
// be read. kIoError if the entries cannot be listed.
Status visit_entries(
    EntrySource& source,
    const std::function<Status(const CheckedEntry& checked, std::string_view bytes)>& visit);

struct CopyReport {
  uint64_t copied = 0, copied_bytes = 0;
  uint64_t present = 0;               // not copied, because the target has the key
  uint64_t unwanted = 0;              // not copied, because `wanted` refused it
  std::vector<std::string> problems;  // one for each bad entry; these are not copied
};

// Whether an entry is to be copied. Empty: all are.
using EntryFilter = std::function<bool(const CacheEntry&)>;

// Writes every good entry of `source` into a new pack, which replaces what is at `path`. The same
// entries give the same bytes. After kIoError or kInvalidArgument (too many entries) `path` is
// unchanged.
Result<CopyReport> export_pack(EntrySource& source, const std::string& path,
                               const EntryFilter& wanted = {});

// Copies every good entry of `source` into the directory, except those whose key is there already.
// kIoError if one cannot be written; entries copied before it stay.
Result<CopyReport> import_entries(EntrySource& source, FileSystem& fs, DiskLayer& directory,
                                  const EntryFilter& wanted = {});

}  // namespace lssar
