// A part file: a few named parts in one file. Each is written and checked like an entry of the
// cache. Bytes: docs/capture_format.md.
//
// Used by captures (runtime/capture.h), whose files are untrusted. Threads: any number of threads
// may read a PartFile.
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
// The largest unpacked part.
inline constexpr uint64_t kMaxPartBytes = uint64_t{4} << 30;

struct NamedPart {
  std::string name;  // 1 to kMaxPartName printable ASCII characters, unique in a file
  CacheEntry entry;
};

// The file's bytes. kInvalidArgument: a name or number of parts that is not allowed, or a part
// larger than kMaxPartBytes.
Result<std::vector<std::string>> encode_parts(const std::vector<NamedPart>& parts);

// Writes the file with mode 0600 by the rules of base/output_file.h. `is_own_name` says that the
// library chose the name. Errors: those of encode_parts; kIoError.
Status write_part_file(const std::string& path, const std::vector<NamedPart>& parts,
                       bool is_own_name = false);

class PartFile {
 public:
  // Checks the table: parts must fill the file one after another. Their bytes are checked when they
  // are read. kIoError: the file cannot be read, is not a part file, is truncated or damaged. The
  // message names it.
  static Result<PartFile> open(const std::string& path);
  // The same for bytes in memory, which are copied. Messages call them `name`.
  static Result<PartFile> parse(std::string_view bytes, const std::string& name);

  struct Row {
    std::string name;
    uint64_t offset = 0, bytes = 0;  // in the file
    Sha256Digest checksum = {};      // the last bytes of the part
  };
  const std::string& name() const { return name_; }
  const std::vector<Row>& rows() const { return rows_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // kInvalidArgument: there is no part of that name. kIoError: it is damaged, or larger than
  // `max_bytes` unpacked, which is noticed before anything of that size is allocated. The message
  // names file and part.
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
