// A part file: one file that holds a few parts by name, each written and checked as an entry of the
// cache is, whole and in order. Bytes: docs/capture_format.md.
//
// Used by captures (runtime/capture.h), which are read from files that somebody else made. Threads:
// a PartFile may be read by any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {

inline constexpr uint64_t kMaxParts = 64;
inline constexpr size_t kMaxPartName = 63;
// Limit for one part, unpacked.
inline constexpr uint64_t kMaxPartBytes = uint64_t{4} << 30;

struct NamedPart {
  std::string name;  // 1 to kMaxPartName printable ASCII characters, none twice in a file
  CacheEntry entry;
};

// The file's bytes. kInvalidArgument: a name or a number of parts that is not allowed, a part of
// more than kMaxPartBytes.
Result<std::vector<std::string>> encode_parts(const std::vector<NamedPart>& parts);

// Writes it, mode 0600, as base/output_file.h says; `is_own_name`: the library made the name up.
// Errors: those of encode_parts; kIoError.
Status write_part_file(const std::string& path, const std::vector<NamedPart>& parts,
                       bool is_own_name = false);

class PartFile {
 public:
  // Checks the table, of the parts only that they lie in the file, one behind the other up to its
  // end: each is checked when it is read. kIoError: the file cannot be read, is no such file, is
  // truncated or damaged; the message names it.
  static Result<PartFile> open(const std::string& path);
  // The same of bytes in memory, which are copied; messages call them `name`.
  static Result<PartFile> parse(std::string_view bytes, const std::string& name);

  struct Row {
    std::string name;
    uint64_t offset = 0, bytes = 0;  // in the file
    Sha256Digest checksum = {};      // with which the part ends
  };
  const std::string& name() const { return name_; }
  const std::vector<Row>& rows() const { return rows_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // kInvalidArgument: there is none of that name. kIoError: it is damaged, or would have more than
  // `max_bytes` unpacked; nothing of that size is allocated. The message names file and part.
  Result<CacheEntry> read(const std::string& name, uint64_t max_bytes) const;

 private:
  // Exactly `count` bytes from `offset`.
  using ReadAt = std::function<Result<std::string>(uint64_t offset, uint64_t count)>;

  PartFile(std::string name, ReadAt read_at)
      : name_(std::move(name)), read_at_(std::move(read_at)) {}
  static Result<PartFile> read_table(std::string name, ReadAt read_at, uint64_t file_bytes);
  const Row* find(std::string_view name) const;

  std::string name_;
  ReadAt read_at_;
  std::vector<Row> rows_;
};

}  // namespace lssar
