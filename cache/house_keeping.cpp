#include "cache/house_keeping.h"

#include <algorithm>

#include "base/log.h"
#include "cache/sha256.h"

namespace lssar {
namespace {

constexpr int64_t kHourNs = 3600 * kNsPerSecond;
constexpr int64_t kStampAgeNs = kHourNs;
// Longer than any write takes, allowing for clock differences between machines.
constexpr int64_t kStaleTemporaryNs = kHourNs;
constexpr int64_t kClockSkewNs = kYoungEntryNs;

bool remove_logged(FileSystem& fs, const std::string& path, const FileState& state) {
  const Status status = fs.remove(path, state);
  if (!status.ok()) log(LogLevel::kDebug, "cache: " + status.message());
  return status.ok();
}

}  // namespace

bool is_entry_name(const std::string& name) {
  Sha256Digest key;
  return from_hex(name, &key);
}

int64_t age_ns(int64_t stamp_ns, int64_t now_ns) {
  const int64_t age = now_ns - stamp_ns;
  return age < -kClockSkewNs ? std::numeric_limits<int64_t>::max() : age;
}

bool wants_new_stamp(int64_t stamp_ns, int64_t now_ns) {
  return age_ns(stamp_ns, now_ns) > kStampAgeNs;
}

Eviction evict_entries(FileSystem& fs, const std::string& entries, const EvictionLimits& limits) {
  Eviction done;
  auto files = fs.list(entries);
  if (!files.ok()) return done;
  std::erase_if(*files, [](const ListedFile& file) { return !is_entry_name(file.name); });
  for (const ListedFile& file : *files) done.kept_bytes += file.occupied_bytes;
  done.kept = files->size();

  const int64_t now = fs.now_ns();
  const auto age = [now](const ListedFile& file) { return age_ns(file.state.mtime_ns, now); };
  std::sort(files->begin(), files->end(),
            [&](const ListedFile& a, const ListedFile& b) { return age(a) > age(b); });
  const bool is_over = done.kept_bytes > limits.max_bytes;
  for (const ListedFile& file : *files) {
    const bool is_too_much = is_over && done.kept_bytes > limits.kept_bytes;
    if (age(file) <= limits.young_ns || (!is_too_much && age(file) <= limits.old_ns)) break;
    if (!remove_logged(fs, entries + "/" + file.name, file.state)) continue;
    ++done.evicted, --done.kept;
    done.evicted_bytes += file.occupied_bytes;
    done.kept_bytes -= file.occupied_bytes;
  }
  return done;
}

uint64_t sweep_temporaries(FileSystem& fs, const std::string& temporaries) {
  const auto files = fs.list(temporaries);
  if (!files.ok()) return 0;
  const int64_t now = fs.now_ns();
  uint64_t removed = 0;
  for (const ListedFile& file : *files) {
    if (!file.name.ends_with(kTemporarySuffix)) continue;
    if (age_ns(file.state.mtime_ns, now) <= kStaleTemporaryNs) continue;
    removed += remove_logged(fs, temporaries + "/" + file.name, file.state);
  }
  return removed;
}

}  // namespace lssar
