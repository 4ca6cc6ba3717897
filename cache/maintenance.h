// Whole caches: check every entry, copy entries into a pack or out of one. What a person does with
// `lssar cache`; no request needs it.
//
// Threads: no shared state; the cache may be in use meanwhile.
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
  CacheEntry entry;      // where there is no problem
  std::string problem;   // why it is not used; "": it is good
  bool damaged = false;  // no version of the library can read it
};

// Reads and checks every entry and hands it over with its bytes; an error of `visit` ends it.
// One that vanishes meanwhile has a problem like any other that cannot be read. kIoError where they
// cannot be listed.
Status visit_entries(
    EntrySource& source,
    const std::function<Status(const CheckedEntry& checked, std::string_view bytes)>& visit);

struct CopyReport {
  uint64_t copied = 0, copied_bytes = 0;
  uint64_t present = 0;               // not copied: the target has the key
  uint64_t unwanted = 0;              // not copied: `wanted` said so
  std::vector<std::string> problems;  // one per entry that is not good, and so not copied
};

// Whether an entry is to be copied; empty = every one.
using EntryFilter = std::function<bool(const CacheEntry&)>;

// Every good entry of `source` into a new pack, which replaces what is at `path`. The same entries
// make the same bytes. kIoError, kInvalidArgument (too many): `path` keeps what it had.
Result<CopyReport> export_pack(EntrySource& source, const std::string& path,
                               const EntryFilter& wanted = {});

// Every good entry of `source` into the directory, but for those whose key is there. kIoError where
// one cannot be written: what was copied before it stays.
Result<CopyReport> import_entries(EntrySource& source, FileSystem& fs, DiskLayer& directory,
                                  const EntryFilter& wanted = {});

}  // namespace lssar
