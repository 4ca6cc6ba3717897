#include "cache/store.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "cache/disk_layer.h"
#include "cache/location.h"
#include "cache/memory_layer.h"
#include "cache/open_store.h"

namespace lssar {
namespace {

using EntryPtr = std::shared_ptr<const CacheEntry>;
using Compute = std::function<Result<CacheEntry>()>;

// An exception of `compute` must not leave others waiting for it.
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

class LayeredStore final : public Store {
 public:
  LayeredStore(std::unique_ptr<DiskLayer> disk, std::string problem, uint64_t max_memory_bytes)
      : disk_(std::move(disk)), problem_(std::move(problem)), memory_(max_memory_bytes) {}

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
    Result<EntryPtr> result = from_disk_or_compute(key, digest, compute, source);
    {
      std::lock_guard lock(mutex_);
      if (result.ok()) memory_.insert(key, *result);
      flights_.erase(key);
    }
    promise.set_value(result);
    // Writing comes last: nobody who waits for the bytes waits for the disk.
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
    EntryPtr entry = read(key, digest);
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

  std::string directory() const override { return disk_ ? disk_->directory() : ""; }
  std::string problem() const override { return problem_; }

  CacheStats stats() const override {
    return {.memory_hits = memory_hits_,
            .disk_hits = disk_hits_,
            .misses = misses_,
            .write_failures = write_failures_,
            .evictions = disk_ ? disk_->evictions() : 0};
  }

 private:
  static Status bad_key(const std::string& key) {
    return invalid_argument(fmt::format(
        "cache key '{}': allowed are 64 lower-case hexadecimal digits", key.substr(0, 80)));
  }

  Result<EntryPtr> from_disk_or_compute(const std::string& key, const Sha256Digest& digest,
                                        const Compute& compute, CacheSource* source) {
    *source = CacheSource::kDisk;
    if (EntryPtr entry = read(key, digest)) return entry;
    ++misses_;
    *source = CacheSource::kComputed;
    return run_compute(compute);
  }

  EntryPtr read(const std::string& key, const Sha256Digest& digest) {
    if (!disk_) return nullptr;
    std::string why;
    EntryPtr entry;
    try {
      entry = disk_->read(digest, &why);
    } catch (const std::bad_alloc&) {
      why = "there is not enough memory to read it";
    }
    if (entry != nullptr) {
      ++disk_hits_;
      log(LogLevel::kDebug, "cache hit " + key);
    } else {
      log(LogLevel::kInfo, fmt::format("cache miss {}: {}", key, why));
    }
    return entry;
  }

  void write(const Sha256Digest& digest, const CacheEntry& entry) {
    if (!disk_) return;
    Status status;
    try {
      status = disk_->write(digest, entry);
    } catch (const std::bad_alloc&) {
      status = out_of_memory("there is not enough memory to encode it");
    }
    if (status.ok()) return;
    // Once: a full disk would otherwise fill the log too.
    if (write_failures_++ == 0) {
      log(LogLevel::kWarning,
          "cache: entries stay in memory, this one could not be written: " + status.message());
    }
  }

  const std::unique_ptr<DiskLayer> disk_;
  const std::string problem_;

  std::mutex mutex_;  // guards the two below
  MemoryLayer memory_;
  std::unordered_map<std::string, std::shared_future<Result<EntryPtr>>> flights_;

  std::atomic<uint64_t> memory_hits_{0}, disk_hits_{0}, misses_{0}, write_failures_{0};
};

}  // namespace

std::unique_ptr<Store> open_store(const CacheOptions& options, FileSystem& fs) {
  const CacheLocation location = find_cache_location(options.directory);
  std::unique_ptr<DiskLayer> disk;
  std::string problem = location.problem;
  if (!location.directory.empty()) {
    disk = DiskLayer::open(fs, location.directory, options.max_bytes, &problem);
    if (disk == nullptr) problem += fmt::format(" (from {})", location.source);
  }
  if (!problem.empty()) log(LogLevel::kWarning, "cache: entries stay in memory: " + problem);
  return std::make_unique<LayeredStore>(std::move(disk), std::move(problem),
                                        options.max_memory_bytes);
}

std::unique_ptr<Store> Store::open(const CacheOptions& options) {
  return open_store(options, posix_file_system());
}

}  // namespace lssar
