// A read-only source of entries: a cache directory, or a pack (cache/pack.h).
//
// The store's read-only layers are EntrySources, and `lssar cache` lists, verifies and copies them.
// Threads: any number at once.
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
  int64_t used_ns = 0;  // since 1970; 0 in a pack, which does not record it
};

class EntrySource {
 public:
  // A folder is opened as a cache directory, anything else as a pack. kIoError if it is missing,
  // damaged, or writable by other users. `fs` must outlive the source.
  static Result<std::unique_ptr<EntrySource>> open(FileSystem& fs, const std::string& path);
  virtual ~EntrySource() = default;

  virtual const std::string& path() const = 0;
  virtual const char* kind() const = 0;  // "pack" or "directory"

  // In ascending order of keys. A directory may change at any time.
  virtual Result<std::vector<StoredEntry>> list() = 0;
  // The unchecked bytes of the entry's file (docs/cache_format.md, section 3). If `state` is not
  // null, it receives the file's state.
  virtual Result<std::string> bytes(const Sha256Digest& key, FileState* state) = 0;

  // Returns null and fills *why on any problem; the caller treats it as a miss.
  std::shared_ptr<const CacheEntry> read(const Sha256Digest& key, std::string* why);
};

}  // namespace lssar
