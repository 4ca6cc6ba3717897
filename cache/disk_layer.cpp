#include "cache/disk_layer.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cache/entry.h"
#include "cache/house_keeping.h"

namespace lssar {
namespace {

constexpr uint64_t kScansPerCap = 16;  // scan after every max_bytes / 16 written
constexpr uint64_t kKeptEighths = 7;   // of the cap: what an eviction leaves

}  // namespace

DiskLayer::DiskLayer(FileSystem& fs, std::string directory, uint64_t max_bytes)
    : fs_(fs),
      directory_(std::move(directory)),
      entries_(directory_ + "/entries"),
      temporaries_(directory_ + "/tmp"),
      max_bytes_(max_bytes) {}

std::unique_ptr<DiskLayer> DiskLayer::open(FileSystem& fs, const std::string& directory,
                                           uint64_t max_bytes, std::string* problem) {
  std::unique_ptr<DiskLayer> layer(new DiskLayer(fs, directory, max_bytes));
  const Status status = layer->prepare_folders();
  if (status.ok()) return layer;
  *problem = status.message();
  return nullptr;
}

Status DiskLayer::prepare_folders() {
  LSSAR_RETURN_IF_ERROR(fs_.prepare_folder(directory_));
  LSSAR_RETURN_IF_ERROR(fs_.prepare_folder(entries_));
  return fs_.prepare_folder(temporaries_);
}

std::shared_ptr<const CacheEntry> DiskLayer::read(const Sha256Digest& key, std::string* why) {
  const std::string path = entry_path(to_hex(key));
  FileState state;
  const Result<std::string> bytes = fs_.read_private(path, kMaxEntryBytes, &state);
  if (!bytes.ok()) {
    *why = bytes.status().message();
    return nullptr;
  }
  auto entry = std::make_shared<CacheEntry>();
  DecodeFailure failure;
  if (!decode_entry(*bytes, key, entry.get(), &failure)) {
    *why = fmt::format("'{}' is not used: {}", path, failure.reason);
    if (failure.damaged && fs_.remove(path, state).ok()) *why += " (removed)";
    return nullptr;
  }
  const int64_t now = fs_.now_ns();
  if (wants_new_stamp(state.mtime_ns, now)) {
    // A read-only folder keeps its old stamps; nothing depends on them.
    if (const Status status = fs_.stamp(path, now); !status.ok()) {
      log(LogLevel::kDebug, "cache: " + status.message());
    }
  }
  return entry;
}

std::string DiskLayer::temporary_path() const {
  return temporaries_ + "/" + unique_file_name() + kTemporarySuffix;
}

Status DiskLayer::write(const Sha256Digest& key, const CacheEntry& entry) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, encode_entry(key, entry));
  return write_encoded(key, bytes);
}

Status DiskLayer::write_encoded(const Sha256Digest& key, std::string_view bytes) {
  const std::string path = entry_path(to_hex(key));
  Status status = fs_.write(path, bytes, temporary_path());
  if (!status.ok()) {
    // Another process may have cleared the cache; make the folders again.
    if (!prepare_folders().ok()) return status;
    status = fs_.write(path, bytes, temporary_path());
  }
  if (status.ok()) account(bytes.size());
  return status;
}

void DiskLayer::account(uint64_t written_bytes) {
  std::unique_lock lock(scan_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread scans: it or the next scan sees the file
  written_since_scan_bytes_ += written_bytes;
  const bool due = max_bytes_ != 0 && written_since_scan_bytes_ > max_bytes_ / kScansPerCap;
  if (scanned_ && !due) return;
  scanned_ = true;
  written_since_scan_bytes_ = 0;
  sweep_temporaries(fs_, temporaries_);
  if (max_bytes_ == 0) return;
  evictions_ += evict_entries(fs_, entries_,
                              {.max_bytes = max_bytes_,
                               .kept_bytes = max_bytes_ / 8 * kKeptEighths,
                               .young_ns = kYoungEntryNs})
                    .evicted;
}

}  // namespace lssar
