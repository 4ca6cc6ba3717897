// A pack: one file with many entries, made to be shipped and read. It is never changed. Bytes:
// docs/cache_format.md, section 6.
//
// Threads: a PackFile may be read by any number of threads; a PackWriter belongs to one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "base/status.h"
#include "cache/sha256.h"

namespace lssar {

inline constexpr uint64_t kMaxPackEntries = uint64_t{1} << 20;

struct PackEntry {
  Sha256Digest key;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
};

// An open pack with its index in memory. It keeps reading the file that was opened, even if that
// file is replaced.
class PackFile {
 public:
  // Checks the whole index, but not the entries' bytes: those are checked when an entry is read.
  // kIoError if the pack is missing, damaged, or could have been written by other users.
  static Result<PackFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const FileState& state() const { return file_.state(); }
  const std::vector<PackEntry>& entries() const { return entries_; }  // by key, ascending
  const PackEntry* find(const Sha256Digest& key) const;               // null if it is not there
  Result<std::string> bytes(const PackEntry& entry) const;            // unchecked, as in the file

 private:
  PackFile(InputFile file, std::vector<PackEntry> entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}

  InputFile file_;
  std::vector<PackEntry> entries_;
};

// finish() gives the pack its name. Until then the old file stays under that name.
// base/output_file.h says what the name may be.
class PackWriter {
 public:
  static Result<PackWriter> create(const std::string& path);

  // `bytes` must come from encode_entry. kInvalidArgument if there are more than kMaxPackEntries.
  Status add(const Sha256Digest& key, std::string_view bytes);
  // kInvalidArgument if a key was added twice.
  Status finish();

 private:
  explicit PackWriter(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
  uint64_t offset_ = 0;  // bytes written so far
  std::vector<PackEntry> entries_;
};

}  // namespace lssar
