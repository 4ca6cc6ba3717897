// A pack: one file that holds many entries, to be shipped and read, never changed.
// Bytes: docs/cache_format.md, section 6.
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

// An open pack with its index in memory. It stays the file it was when it was opened, whatever is
// put in its place.
class PackFile {
 public:
  // Checks the whole index, of the entries only where they lie: each is checked when it is read.
  // kIoError where the pack is missing, damaged, or could have been written by other users.
  static Result<PackFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const FileState& state() const { return file_.state(); }
  const std::vector<PackEntry>& entries() const { return entries_; }  // by key, ascending
  const PackEntry* find(const Sha256Digest& key) const;               // null = not there
  Result<std::string> bytes(const PackEntry& entry) const;            // as they lie in the file

 private:
  PackFile(InputFile file, std::vector<PackEntry> entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}

  InputFile file_;
  std::vector<PackEntry> entries_;
};

// The pack appears under its name with finish(); before that, and without it, the name keeps what
// it had. What the name may be: base/output_file.h.
class PackWriter {
 public:
  static Result<PackWriter> create(const std::string& path);

  // `bytes` as encode_entry makes them. kInvalidArgument: more than kMaxPackEntries.
  Status add(const Sha256Digest& key, std::string_view bytes);
  // kInvalidArgument: a key was added twice.
  Status finish();

 private:
  explicit PackWriter(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
  uint64_t offset_ = 0;  // what has been written
  std::vector<PackEntry> entries_;
};

}  // namespace lssar
