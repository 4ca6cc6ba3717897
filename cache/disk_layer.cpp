#include "cache/disk_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cache/entry.h"

namespace lssar {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
// A stamp is renewed only when it is this old: a hit then costs no write most of the time.
constexpr int64_t kStampAgeNs = 3600 * kNsPerSecond;
// Longer than any write takes, clocks of different machines included.
constexpr int64_t kStaleTemporaryNs = 3600 * kNsPerSecond;
// What another process has just compiled is about to be used by its siblings.
constexpr int64_t kYoungEntryNs = 600 * kNsPerSecond;
constexpr uint64_t kScansPerCap = 16;  // a scan each max_bytes / 16 written
constexpr uint64_t kKeptEighths = 7;   // of the cap, after an eviction
// Nothing else in tmp/ is touched: a user may name a directory that has a tmp/ of his own.
constexpr char kTemporarySuffix[] = ".lssar";

bool is_entry_name(const std::string& name) {
  Sha256Digest key;
  return from_hex(name, &key);
}

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
  if (now - state.mtime_ns > kStampAgeNs) {
    // A folder that can only be read keeps its order; nothing depends on it.
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
  const std::string path = entry_path(to_hex(key));
  Status status = fs_.write(path, bytes, temporary_path());
  if (!status.ok()) {
    // Somebody may have cleared the cache under us.
    if (!prepare_folders().ok()) return status;
    status = fs_.write(path, bytes, temporary_path());
  }
  if (status.ok()) account(bytes.size());
  return status;
}

void DiskLayer::account(uint64_t written_bytes) {
  std::unique_lock lock(scan_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread scans: it sees this file, or the next scan does
  written_since_scan_bytes_ += written_bytes;
  const bool due = max_bytes_ != 0 && written_since_scan_bytes_ > max_bytes_ / kScansPerCap;
  if (scanned_ && !due) return;
  scanned_ = true;
  written_since_scan_bytes_ = 0;
  sweep_temporaries();
  if (max_bytes_ != 0) evict();
}

void DiskLayer::sweep_temporaries() {
  const auto files = fs_.list(temporaries_);
  if (!files.ok()) return;
  const int64_t now = fs_.now_ns();
  for (const ListedFile& file : *files) {
    if (!file.name.ends_with(kTemporarySuffix)) continue;
    if (now - file.state.mtime_ns <= kStaleTemporaryNs) continue;
    const Status status = fs_.remove(temporaries_ + "/" + file.name, file.state);
    if (!status.ok()) log(LogLevel::kDebug, "cache: " + status.message());
  }
}

void DiskLayer::evict() {
  auto files = fs_.list(entries_);
  if (!files.ok()) return;
  std::erase_if(*files, [](const ListedFile& file) { return !is_entry_name(file.name); });
  uint64_t occupied = 0;
  for (const ListedFile& file : *files) occupied += file.occupied_bytes;
  if (occupied <= max_bytes_) return;

  std::sort(files->begin(), files->end(), [](const ListedFile& a, const ListedFile& b) {
    return a.state.mtime_ns < b.state.mtime_ns;
  });
  const uint64_t wanted = max_bytes_ / 8 * kKeptEighths;
  const int64_t now = fs_.now_ns();
  for (const ListedFile& file : *files) {
    if (occupied <= wanted || now - file.state.mtime_ns <= kYoungEntryNs) break;
    const Status status = fs_.remove(entry_path(file.name), file.state);
    if (!status.ok()) {
      log(LogLevel::kDebug, "cache: " + status.message());
      continue;
    }
    occupied -= file.occupied_bytes;
    ++evictions_;
  }
}

}  // namespace lssar
