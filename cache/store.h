// The binary cache: bytes under keys, one file per entry, nothing about kernels.
// Format and rules: docs/cache_format.md.
//
// Threads: any number may use a Store at once, and processes may share a directory. A failure to
// read is a miss. A failure to write is logged once, and the store continues in memory. So no call
// fails a request because of the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar {

// A key is the SHA-256 of named, length-prefixed fields, written as 64 lower-case hexadecimal
// digits.
class CacheKeyBuilder {
 public:
  CacheKeyBuilder();  // starts with the schema version
  CacheKeyBuilder& add(std::string_view field, std::string_view value);
  CacheKeyBuilder& add(std::string_view field, const std::vector<std::string>& values);
  std::string hex() const;
  const std::string& bytes() const { return fields_; }  // the bytes that are hashed

 private:
  std::string fields_;
};

struct CacheEntry {
  std::string metadata;  // JSON text, for people and for `lssar inspect`
  std::string payload;
};

struct CacheOptions {
  // Empty: LSSAR_CACHE_DIR, else $XDG_CACHE_HOME/lssar, else ~/.cache/lssar. "none": memory only.
  std::string directory;
  uint64_t max_bytes = uint64_t{1} << 30;  // above it the least recently used go; 0 = no limit
  // Limit for entries in memory. Entries that callers hold do not count. At least one entry is
  // kept.
  uint64_t max_memory_bytes = uint64_t{256} << 20;
  // Packs and cache directories that are only read, in lookup order: after memory, before the
  // directory. Empty: LSSAR_CACHE_LAYERS, separated by ':'. {"none"}: none.
  std::vector<std::string> layers = {};
  // How long to wait for another process of this machine that computes the same key. After that
  // this process computes it too. 0: do not wait.
  uint64_t lock_timeout_ms = 60'000;
  // Where the locks are, on a file system that only this machine uses. The folder is made if it is
  // missing. Empty: lssar-lock-<user id> in /dev/shm, else in $TMPDIR, else in /tmp.
  std::string lock_directory = {};
};

struct CacheStats {
  uint64_t memory_hits = 0, disk_hits = 0, misses = 0, write_failures = 0, evictions = 0;
  uint64_t layer_hits = 0;  // the part of disk_hits that read-only layers had
};

// A read-only layer, as found when the store was opened.
struct CacheLayer {
  std::string path;
  std::string kind;     // "pack" or "directory"; "" if it is not used
  std::string problem;  // why it is not used; "" if it is
};

enum class CacheSource { kMemory, kDisk, kComputed };  // kDisk: the directory, or a layer

class Store {
 public:
  // Never fails. If the directory cannot be used, the store works in memory and problem() says why.
  // A layer that cannot be used is left out and layers() says why.
  static std::unique_ptr<Store> open(const CacheOptions& options);
  virtual ~Store() = default;

  // The entry of `key`, from memory or disk. If neither has it, `compute` makes it and it is
  // stored.
  //
  // One thread of this process computes a key. The others wait and share the result; for them
  // `source` is kMemory. They share an error too, but errors are not stored. Other processes of
  // this machine also wait, for at most lock_timeout_ms, and then read what was written.
  //
  // `source` (may be null) receives where the entry came from. No mutex is held while `compute`
  // runs. It must not ask for its own key. kInvalidArgument if `key` does not have
  // CacheKeyBuilder's form. All other errors come from `compute`; an exception of it becomes
  // kInternal.
  virtual Result<std::shared_ptr<const CacheEntry>> get_or_compute(
      const std::string& key, const std::function<Result<CacheEntry>()>& compute,
      CacheSource* source) = 0;

  virtual std::shared_ptr<const CacheEntry> find(const std::string& key) = 0;  // null = miss
  virtual void insert(const std::string& key, CacheEntry entry) = 0;           // replaces

  virtual std::string directory() const = 0;  // "" = memory only
  virtual std::string problem() const = 0;    // why it is not used; "" if it is or "none" was asked
  virtual std::vector<CacheLayer> layers() const = 0;
  virtual CacheStats stats() const = 0;
};

}  // namespace lssar
