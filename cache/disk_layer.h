// The writable cache directory: reads, writes, and keeps itself below a size. Rules:
// docs/cache_format.md.
//
// Threads: any number at once; processes may share the directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cache/file_system.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {

class DiskLayer {
 public:
  // Returns null and fills *problem if the directory cannot be used. `fs` must outlive the layer.
  static std::unique_ptr<DiskLayer> open(FileSystem& fs, const std::string& directory,
                                         uint64_t max_bytes, std::string* problem);

  // Returns null and fills *why on any problem; the caller treats it as a miss.
  std::shared_ptr<const CacheEntry> read(const Sha256Digest& key, std::string* why);
  // Callers only log an error.
  Status write(const Sha256Digest& key, const CacheEntry& entry);
  // The same for bytes that encode_entry made.
  Status write_encoded(const Sha256Digest& key, std::string_view bytes);

  const std::string& directory() const { return directory_; }
  uint64_t evictions() const { return evictions_; }

 private:
  DiskLayer(FileSystem& fs, std::string directory, uint64_t max_bytes);

  Status prepare_folders();
  std::string entry_path(const std::string& name) const { return entries_ + "/" + name; }
  std::string temporary_path() const;
  void account(uint64_t written_bytes);

  FileSystem& fs_;
  const std::string directory_, entries_, temporaries_;
  const uint64_t max_bytes_;

  std::mutex scan_mutex_;  // guards the two below; held during a scan
  bool scanned_ = false;
  uint64_t written_since_scan_bytes_ = 0;
  std::atomic<uint64_t> evictions_{0};
};

}  // namespace lssar
