// The file system and clock as the cache sees them. Tests replace them to make any operation fail.
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
  uint64_t occupied_bytes = 0;  // blocks, or the size if that is larger
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes the folder (mode 0700) and its missing parents, and checks that no other user can have
  // written there. The Status says what is wrong. Existing folders are not changed.
  virtual Status prepare_folder(const std::string& path) = 0;
  // The same check, but makes nothing.
  virtual Status check_folder(const std::string& path) = 0;
  // Whether `path` is on a kind of file system that only one machine uses; false if unknown.
  virtual bool is_node_local(const std::string& path) = 0;

  // See FileReadOptions::require_private.
  virtual Result<std::string> read_private(const std::string& path, uint64_t max_bytes,
                                           FileState* state) = 0;
  // See write_file_atomically; mode 0600.
  virtual Status write(const std::string& path, std::string_view bytes,
                       const std::string& temporary) = 0;
  // Lists regular files in no particular order. Files that vanish meanwhile are left out.
  virtual Result<std::vector<ListedFile>> list(const std::string& folder) = 0;
  // Unlinks the file if the effective user owns it and its state is still `state`.
  virtual Status remove(const std::string& path, const FileState& state) = 0;
  // Sets both time stamps.
  virtual Status stamp(const std::string& path, int64_t time_ns) = 0;
  virtual int64_t now_ns() = 0;  // since 1970
};

// The real one. It is never destroyed.
FileSystem& posix_file_system();

}  // namespace lssar
