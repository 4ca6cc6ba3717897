#include "cache/entry_source.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "cache/house_keeping.h"
#include "cache/pack.h"

namespace lssar {
namespace {

class DirectorySource final : public EntrySource {
 public:
  DirectorySource(FileSystem& fs, std::string path)
      : fs_(fs), path_(std::move(path)), entries_(path_ + "/entries") {}

  Status check() {
    LSSAR_RETURN_IF_ERROR(fs_.check_folder(path_));
    return fs_.check_folder(entries_);
  }

  const std::string& path() const override { return path_; }
  const char* kind() const override { return "directory"; }

  Result<std::vector<StoredEntry>> list() override {
    LSSAR_ASSIGN_OR_RETURN(const std::vector<ListedFile> files, fs_.list(entries_));
    std::vector<StoredEntry> entries;
    for (const ListedFile& file : files) {
      StoredEntry entry{.key = {}, .bytes = file.state.size_bytes, .used_ns = file.state.mtime_ns};
      if (from_hex(file.name, &entry.key)) entries.push_back(entry);
    }
    std::sort(entries.begin(), entries.end(),
              [](const StoredEntry& a, const StoredEntry& b) { return a.key < b.key; });
    return entries;
  }

  Result<std::string> bytes(const Sha256Digest& key, FileState* state) override {
    FileState ignored;
    return fs_.read_private(entries_ + "/" + to_hex(key), kMaxEntryBytes,
                            state == nullptr ? &ignored : state);
  }

 private:
  FileSystem& fs_;
  const std::string path_, entries_;
};

class PackSource final : public EntrySource {
 public:
  explicit PackSource(PackFile pack) : pack_(std::move(pack)) {}

  const std::string& path() const override { return pack_.path(); }
  const char* kind() const override { return "pack"; }

  Result<std::vector<StoredEntry>> list() override {
    std::vector<StoredEntry> entries;
    entries.reserve(pack_.entries().size());
    for (const PackEntry& entry : pack_.entries()) entries.push_back({entry.key, entry.bytes, 0});
    return entries;
  }

  Result<std::string> bytes(const Sha256Digest& key, FileState* state) override {
    if (state != nullptr) *state = pack_.state();
    const PackEntry* entry = pack_.find(key);
    if (entry == nullptr) return io_error(fmt::format("'{}' has no such entry", path()));
    return pack_.bytes(*entry);
  }

 private:
  const PackFile pack_;
};

}  // namespace

Result<std::unique_ptr<EntrySource>> EntrySource::open(FileSystem& fs, const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    auto directory = std::make_unique<DirectorySource>(fs, path);
    LSSAR_RETURN_IF_ERROR(directory->check());
    return std::unique_ptr<EntrySource>(std::move(directory));
  }
  LSSAR_ASSIGN_OR_RETURN(PackFile pack, PackFile::open(path));
  return std::unique_ptr<EntrySource>(std::make_unique<PackSource>(std::move(pack)));
}

std::shared_ptr<const CacheEntry> EntrySource::read(const Sha256Digest& key, std::string* why) {
  const Result<std::string> found = bytes(key, nullptr);
  if (!found.ok()) {
    *why = found.status().message();
    return nullptr;
  }
  auto entry = std::make_shared<CacheEntry>();
  DecodeFailure failure;
  if (decode_entry(*found, key, entry.get(), &failure)) return entry;
  *why = fmt::format("the entry in '{}' is not used: {}", path(), failure.reason);
  return nullptr;
}

}  // namespace lssar
