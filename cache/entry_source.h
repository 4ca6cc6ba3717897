// Where entries are read from: a cache directory, or a pack (cache/pack.h). Neither is changed.
//
// The store's read-only layers are EntrySources, and so is what `lssar cache` lists, verifies and
// copies. Threads: any number at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "cache/entry.h"
#include "cache/file_system.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {

struct StoredEntry {
  Sha256Digest key;
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // since 1970; in a pack, which does not know, 0
};

class EntrySource {
 public:
  // A folder is a cache directory, anything else a pack. kIoError where it cannot be used: missing,
  // damaged, or what other users could have written. `fs` outlives the source.
  static Result<std::unique_ptr<EntrySource>> open(FileSystem& fs, const std::string& path);
  virtual ~EntrySource() = default;

  virtual const std::string& path() const = 0;
  virtual const char* kind() const = 0;  // "pack" or "directory"

  // By key, ascending. A directory may change at any time.
  virtual Result<std::vector<StoredEntry>> list() = 0;
  // The bytes of the entry's file (docs/cache_format.md, section 3), not yet checked, and (where
  // `state` is not null) the state of that file.
  virtual Result<std::string> bytes(const Sha256Digest& key, FileState* state) = 0;

  // Null with *why filled: any problem of reading is a miss.
  std::shared_ptr<const CacheEntry> read(const Sha256Digest& key, std::string* why);
};

}  // namespace lssar
