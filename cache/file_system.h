// What the cache asks of a file system and a clock: a seam, so that tests can make any of it fail.
//
// Used by everything in cache/ that touches files. Threads: any number at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lssar {

struct ListedFile {
  std::string name;
  FileState state;
  uint64_t occupied_bytes = 0;  // blocks, or the size where that is more
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes the folder (mode 0700) and its parents where they are missing, and checks that no other
  // user can have written in it; the Status says what is wrong. Changes nothing that exists.
  virtual Status prepare_folder(const std::string& path) = 0;
  // The same without making anything.
  virtual Status check_folder(const std::string& path) = 0;
  // Whether what exists at `path` is on a file system of a kind that other machines do not share;
  // false where that is not known.
  virtual bool is_node_local(const std::string& path) = 0;

  // See FileReadOptions::require_private.
  virtual Result<std::string> read_private(const std::string& path, uint64_t max_bytes,
                                           FileState* state) = 0;
  // See write_file_atomically; mode 0600.
  virtual Status write(const std::string& path, std::string_view bytes,
                       const std::string& temporary) = 0;
  // Regular files only, in no order; those that vanish meanwhile are left out.
  virtual Result<std::vector<ListedFile>> list(const std::string& folder) = 0;
  // Unlinks the file if it is the effective user's and its state is still `state`.
  virtual Status remove(const std::string& path, const FileState& state) = 0;
  // Sets both time stamps.
  virtual Status stamp(const std::string& path, int64_t time_ns) = 0;
  virtual int64_t now_ns() = 0;  // since 1970
};

// The real one; lives for ever.
FileSystem& posix_file_system();

}  // namespace lssar
