// Whole files: read one into memory, write one atomically. Used by .npy files, by what the command
// writes, and by the binary cache.
//
// Threads: no shared state; every function may be called from any thread at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lssar {

// Which file it was and in which state: equal means nobody replaced or changed it since.
struct FileState {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t mtime_ns = 0;  // since 1970

  bool operator==(const FileState&) const = default;
};

struct FileReadOptions {
  uint64_t max_bytes = uint64_t{1} << 40;
  // Refuse what somebody else may have put there: a symbolic link (as the path's last component),
  // files of users other than the effective one and root, files that group or others can write.
  bool require_private = false;
};

// The bytes of a regular file, and (where `state` is not null) its state when they were read.
// kIoError where it cannot be read, is not a regular file or `options` forbid it; the message names
// the path.
Result<std::string> read_file(const std::string& path, const FileReadOptions& options = {},
                              FileState* state = nullptr);

// A name nobody else makes: "<host>-<pid>-<thread>-<random>", of letters, digits, '.' and '-' only.
// Processes that share a network folder do not collide, nor do threads, nor a reused pid.
std::string unique_file_name();

// Writes `bytes` to `temporary` (which must not exist and must be on the same file system), syncs
// it and renames it over `path`: `path` has its old content or all of the new one, never a part.
// `temporary` is gone afterwards, whatever happened. `mode` is subject to the umask.
Status write_file_atomically(const std::string& path, std::string_view bytes,
                             const std::string& temporary, unsigned mode = 0666);

// The same with a temporary beside `path`.
Status write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace lssar
