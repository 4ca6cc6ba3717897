#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "cache/disk_layer.h"
#include "cache/entry_source.h"
#include "cache/location.h"
#include "cache/memory_layer.h"
#include "cache/node_locks.h"
#include "cache/open_store.h"

namespace lssar {
namespace {

using EntryPtr = std::shared_ptr<const CacheEntry>;
using Compute = std::function<Result<CacheEntry>()>;

// A longer timeout is of no use, and could overflow a deadline.
constexpr uint64_t kLongestLockTimeoutMs = uint64_t{24} * 3600 * 1000;

// An exception of `compute` must not leave other threads waiting for it.
Result<EntryPtr> run_compute(const Compute& compute) {
  try {
    Result<CacheEntry> result = compute();
    if (!result.ok()) return result.status();
    return EntryPtr(std::make_shared<const CacheEntry>(std::move(result).value()));
  } catch (const std::bad_alloc&) {
    return out_of_memory("computing a cache entry ran out of memory");
  } catch (const std::exception& error) {
    return internal_error(fmt::format("computing a cache entry threw: {}", error.what()));
  } catch (...) {
    return internal_error("computing a cache entry threw what is not a std::exception");
  }
}

// The parts of a store that lie in files.
struct FileLayers {
  std::vector<std::unique_ptr<EntrySource>> read_only;  // in lookup order
  std::vector<CacheLayer> found;                        // including those that cannot be used
  std::unique_ptr<DiskLayer> disk;                      // null if nothing is written
  std::string disk_problem;
};

class LayeredStore final : public Store {
 public:
  LayeredStore(FileLayers files, const CacheOptions& options, FileSystem& fs)
      : files_(std::move(files)),
        locks_(fs, options.lock_directory),
        lock_timeout_(std::min(options.lock_timeout_ms, kLongestLockTimeoutMs)),
        memory_(options.max_memory_bytes) {}

  Result<EntryPtr> get_or_compute(const std::string& key, const Compute& compute,
                                  CacheSource* source) override {
    CacheSource ignored;
    if (source == nullptr) source = &ignored;
    Sha256Digest digest;
    if (!from_hex(key, &digest)) return bad_key(key);

    std::promise<Result<EntryPtr>> promise;
    {
      std::unique_lock lock(mutex_);
      *source = CacheSource::kMemory;
      if (EntryPtr entry = memory_.find(key)) return ++memory_hits_, entry;
      if (const auto flight = flights_.find(key); flight != flights_.end()) {
        const std::shared_future<Result<EntryPtr>> future = flight->second;
        lock.unlock();
        const Result<EntryPtr>& shared = future.get();
        if (shared.ok()) ++memory_hits_;
        return shared;
      }
      flights_.emplace(key, promise.get_future().share());
    }
    NodeLocks::Held lock;  // released after the entry has been written
    Result<EntryPtr> result = from_files_or_compute(key, digest, compute, source, &lock);
    {
      std::lock_guard guard(mutex_);
      if (result.ok()) memory_.insert(key, *result);
      flights_.erase(key);
    }
    promise.set_value(result);
    // Write last, so that no thread that waits for the bytes waits for the disk.
    if (result.ok() && *source == CacheSource::kComputed) write(digest, **result);
    return result;
  }

  EntryPtr find(const std::string& key) override {
    Sha256Digest digest;
    if (!from_hex(key, &digest)) return nullptr;
    {
      std::lock_guard lock(mutex_);
      if (EntryPtr entry = memory_.find(key)) return ++memory_hits_, entry;
    }
    EntryPtr entry = read_files(key, digest);
    if (entry == nullptr) return ++misses_, nullptr;
    std::lock_guard lock(mutex_);
    memory_.insert(key, entry);
    return entry;
  }

  void insert(const std::string& key, CacheEntry entry) override {
    Sha256Digest digest;
    if (!from_hex(key, &digest)) {
      log(LogLevel::kError, "cache: nothing stored: " + bad_key(key).message());
      return;
    }
    const auto shared = std::make_shared<const CacheEntry>(std::move(entry));
    {
      std::lock_guard lock(mutex_);
      memory_.insert(key, shared);
    }
    write(digest, *shared);
  }

  std::string directory() const override { return files_.disk ? files_.disk->directory() : ""; }
  std::string problem() const override { return files_.disk_problem; }
  std::vector<CacheLayer> layers() const override { return files_.found; }

  CacheStats stats() const override {
    return {.memory_hits = memory_hits_,
            .disk_hits = disk_hits_,
            .misses = misses_,
            .write_failures = write_failures_,
            .evictions = files_.disk ? files_.disk->evictions() : 0,
            .layer_hits = layer_hits_};
  }

 private:
  static Status bad_key(const std::string& key) {
    return invalid_argument(fmt::format(
        "cache key '{}': allowed are 64 lower-case hexadecimal digits", key.substr(0, 80)));
  }

  Result<EntryPtr> from_files_or_compute(const std::string& key, const Sha256Digest& digest,
                                         const Compute& compute, CacheSource* source,
                                         NodeLocks::Held* lock) {
    *source = CacheSource::kDisk;
    if (EntryPtr entry = read_files(key, digest)) return entry;
    if (wait_for_others(key, digest, lock)) {
      std::string why;
      if (EntryPtr entry = read_disk(digest, &why)) return hit(key, std::move(entry));
    }
    ++misses_;
    *source = CacheSource::kComputed;
    return run_compute(compute);
  }

  // Whether the entry may have been written since it was last looked for. NOTE: this is true even
  // without a wait, because another process may have released the lock just before we took it.
  bool wait_for_others(const std::string& key, const Sha256Digest& digest, NodeLocks::Held* lock) {
    // Waiting is useless if nothing is written, or if writing fails.
    if (files_.disk == nullptr || lock_timeout_.count() == 0 || write_failures_ != 0) return false;
    try {
      const NodeLocks::Outcome outcome = locks_.take(digest, lock_timeout_, lock);
      if (outcome == NodeLocks::Outcome::kTimeout) {
        log(LogLevel::kInfo, fmt::format("cache: another process has been computing {} for {} ms: "
                                         "not waiting any longer",
                                         key, lock_timeout_.count()));
      }
      return outcome != NodeLocks::Outcome::kUnavailable;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  EntryPtr hit(const std::string& key, EntryPtr entry) {
    ++disk_hits_;
    log(LogLevel::kDebug, "cache hit " + key);
    return entry;
  }

  // Asks the read-only layers, then the directory. A miss logs what was asked and why it had
  // nothing.
  EntryPtr read_files(const std::string& key, const Sha256Digest& digest) {
    std::string tried;
    for (const std::unique_ptr<EntrySource>& layer : files_.read_only) {
      std::string why;
      if (EntryPtr entry = read_guarded([&] { return layer->read(digest, &why); }, &why)) {
        ++layer_hits_;
        return hit(key, std::move(entry));
      }
      tried += why + "; ";
    }
    std::string why = "no directory is used";
    if (EntryPtr entry = read_disk(digest, &why)) return hit(key, std::move(entry));
    log(LogLevel::kInfo, fmt::format("cache miss {}: {}{}", key, tried, why));
    return nullptr;
  }

  EntryPtr read_disk(const Sha256Digest& digest, std::string* why) {
    if (files_.disk == nullptr) return nullptr;
    return read_guarded([&] { return files_.disk->read(digest, why); }, why);
  }

  template <typename Read>
  static EntryPtr read_guarded(const Read& read, std::string* why) {
    try {
      return read();
    } catch (const std::bad_alloc&) {
      *why = "there is not enough memory to read it";
      return nullptr;
    }
  }

  void write(const Sha256Digest& digest, const CacheEntry& entry) {
    if (files_.disk == nullptr) return;
    Status status;
    try {
      status = files_.disk->write(digest, entry);
    } catch (const std::bad_alloc&) {
      status = out_of_memory("there is not enough memory to encode it");
    }
    if (status.ok()) return;
    // Logged once. Otherwise a full disk would also fill the log.
    if (write_failures_++ == 0) {
      log(LogLevel::kWarning,
          "cache: entries stay in memory, this one could not be written: " + status.message());
    }
  }

  const FileLayers files_;
  NodeLocks locks_;
  const std::chrono::milliseconds lock_timeout_;

  std::mutex mutex_;  // guards the two members below
  MemoryLayer memory_;
  std::unordered_map<std::string, std::shared_future<Result<EntryPtr>>> flights_;

  std::atomic<uint64_t> memory_hits_{0}, disk_hits_{0}, layer_hits_{0}, misses_{0},
      write_failures_{0};
};

void add_layer(FileSystem& fs, const std::string& path, FileLayers* files) {
  Result<std::unique_ptr<EntrySource>> source = EntrySource::open(fs, path);
  if (source.ok()) {
    files->found.push_back({path, (*source)->kind(), ""});
    files->read_only.push_back(std::move(source).value());
    return;
  }
  log(LogLevel::kWarning, "cache: a layer is not used: " + source.status().message());
  files->found.push_back({path, "", source.status().message()});
}

}  // namespace

std::unique_ptr<Store> open_store(const CacheOptions& options, FileSystem& fs) {
  FileLayers files;
  for (const std::string& path : find_cache_layers(options.layers)) add_layer(fs, path, &files);
  const CacheLocation location = find_cache_location(options.directory);
  std::string problem = location.problem;
  if (!location.directory.empty()) {
    files.disk = DiskLayer::open(fs, location.directory, options.max_bytes, &problem);
    if (files.disk == nullptr) problem += fmt::format(" (from {})", location.source);
  }
  if (!problem.empty()) log(LogLevel::kWarning, "cache: entries stay in memory: " + problem);
  files.disk_problem = std::move(problem);
  return std::make_unique<LayeredStore>(std::move(files), options, fs);
}

std::unique_ptr<Store> Store::open(const CacheOptions& options) {
  return open_store(options, posix_file_system());
}

}  // namespace lssar
