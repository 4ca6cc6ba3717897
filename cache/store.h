// The binary cache: bytes under keys, one file per entry, nothing about kernels.
// Format and rules: docs/cache_format.md.
//
// Threads: a Store may be used from any number of threads at once; processes may share a directory.
// Failures to read are misses, failures to write are logged once and the run goes on from memory:
// no call here fails a request because of the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar {

// A key is the SHA-256 of length-prefixed, named fields, as 64 lower-case hexadecimal digits.
class CacheKeyBuilder {
 public:
  CacheKeyBuilder();  // starts with the schema version
  CacheKeyBuilder& add(std::string_view field, std::string_view value);
  CacheKeyBuilder& add(std::string_view field, const std::vector<std::string>& values);
  std::string hex() const;
  const std::string& bytes() const { return fields_; }  // what is hashed

 private:
  std::string fields_;
};

struct CacheEntry {
  std::string metadata;  // JSON text: for people and for `lssar inspect`
  std::string payload;
};

struct CacheOptions {
  // Empty: LSSAR_CACHE_DIR, else $XDG_CACHE_HOME/lssar, else ~/.cache/lssar. "none": memory only.
  std::string directory;
  uint64_t max_bytes = uint64_t{1} << 30;  // least recently used entries go beyond it; 0 = no limit
  // Limit for entries kept in memory. Those that callers hold do not count. At least one entry is
  // kept.
  uint64_t max_memory_bytes = uint64_t{256} << 20;
  // Packs and cache directories that are read and never changed, asked in this order, after memory
  // and before the directory. Empty: LSSAR_CACHE_LAYERS, ':' between them. {"none"}: none.
  std::vector<std::string> layers = {};
  // How long to wait for another process of this machine that computes the same key; afterwards
  // this one computes it too. 0: never wait.
  uint64_t lock_timeout_ms = 60'000;
  // For the locks, on a file system of this machine alone; made where it is missing. Empty:
  // lssar-lock-<user id> in /dev/shm, else in $TMPDIR, else in /tmp.
  std::string lock_directory = {};
};

struct CacheStats {
  uint64_t memory_hits = 0, disk_hits = 0, misses = 0, write_failures = 0, evictions = 0;
  uint64_t layer_hits = 0;  // those of the disk_hits that a read-only layer had
};

// A read-only layer as it was found when the store was opened.
struct CacheLayer {
  std::string path;
  std::string kind;     // "pack" or "directory"; "" where it is not used
  std::string problem;  // why it is not used; "": it is
};

enum class CacheSource { kMemory, kDisk, kComputed };  // kDisk: the directory, or a layer

class Store {
 public:
  // Never fails: a directory that cannot be used leaves a store in memory, and problem() says why;
  // a layer that cannot be used is left out, and layers() says why.
  static std::unique_ptr<Store> open(const CacheOptions& options);
  virtual ~Store() = default;

  // The entry of `key`, from memory or disk, or by `compute` (then stored). One compute per key in
  // this process: others wait and share the result (for them it comes from memory); an error is
  // shared with those waiting but not stored. Other processes of this machine wait too, for
  // lock_timeout_ms at most, and then read what was written. `source` (may be null) says where it
  // came from. `compute` runs without a lock held; it must not ask for its own key.
  // kInvalidArgument for a key that is not of CacheKeyBuilder's form; otherwise only what `compute`
  // returns (an exception becomes kInternal).
  virtual Result<std::shared_ptr<const CacheEntry>> get_or_compute(
      const std::string& key, const std::function<Result<CacheEntry>()>& compute,
      CacheSource* source) = 0;

  virtual std::shared_ptr<const CacheEntry> find(const std::string& key) = 0;  // null = miss
  virtual void insert(const std::string& key, CacheEntry entry) = 0;           // replaces

  virtual std::string directory() const = 0;  // "" = memory only
  virtual std::string problem() const = 0;    // why it is not used; "" = it is, or "none" was asked
  virtual std::vector<CacheLayer> layers() const = 0;
  virtual CacheStats stats() const = 0;
};

}  // namespace lssar
