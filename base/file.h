// Reads files, whole or in part, and writes them atomically. This is for files that the library
// names itself, mainly the binary cache. base/output_file.h writes files that a user named.
//
// Threads: no shared state; every function may be called from any thread at once. Any number of
// threads may read an InputFile; an AtomicFileWriter belongs to one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/temporaries.h"

namespace lssar {

// kIoError: "cannot WHAT 'PATH': " and the text of that errno.
Status errno_status(const char* what, const std::string& path, int error);

// Modes of private files (data, code that will run) and of files made to be shared.
inline constexpr unsigned kPrivateFileMode = 0600;
inline constexpr unsigned kSharedFileMode = 0644;

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// Identifies a file and its state. If two states are equal, nobody replaced or changed the file in
// between.
struct FileState {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t mtime_ns = 0;  // since 1970

  bool operator==(const FileState&) const = default;
};

struct FileReadOptions {
  uint64_t max_bytes = uint64_t{1} << 40;
  // Refuse files that another user may have planted: a symbolic link as the last component, an
  // owner other than the effective user and root, write permission for group or others.
  bool require_private = false;
};

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }
  int get() const { return fd_; }
  // NOTE: on NFS, close may be the call that reports a failed write, so writers need its result.
  int close();

 private:
  int fd_;
};

// An open regular file. Reads return this file's bytes even if its name is removed or reused.
class InputFile {
 public:
  // kIoError if it cannot be opened, is not a regular file, or `options` forbid it. The message
  // names the path.
  static Result<InputFile> open(const std::string& path, const FileReadOptions& options = {});

  const std::string& path() const { return path_; }
  const FileState& state() const { return state_; }  // when it was opened
  // Exactly `count` bytes from `offset`. kIoError if the file has become shorter; kOutOfMemory.
  Result<std::string> read_at(uint64_t offset, uint64_t count) const;

 private:
  InputFile(std::string path, FileDescriptor file, const FileState& state)
      : path_(std::move(path)), file_(std::move(file)), state_(state) {}

  std::string path_;
  FileDescriptor file_;
  FileState state_;
};

// The bytes of a regular file. If `state` is not null, it receives the file's state at that time.
// kIoError if it cannot be read, is not a regular file, or `options` forbid it. The message names
// the path.
Result<std::string> read_file(const std::string& path, const FileReadOptions& options = {},
                              FileState* state = nullptr);

// A unique name, "<host>-<pid>-<thread>-<random>", of letters, digits, '.' and '-' only. It is safe
// against other hosts on a network folder, other threads and reused pids.
std::string unique_file_name();

// A file written piece by piece. Until commit() `path` keeps its old content, or stays absent;
// commit() then replaces it as a whole. `temporary` must not exist yet and must be on the same file
// system. commit() or the destructor removes it. Exceeding `ulimit -f` is an ordinary error, like a
// full disk: no signal reaches the program.
class AtomicFileWriter {
 public:
  // `mode` is subject to the umask.
  static Result<AtomicFileWriter> create(const std::string& path, const std::string& temporary,
                                         unsigned mode = 0666);

  Status append(std::string_view bytes);
  // Calls finish_writing and put_in_place. No call may follow, even if this one fails.
  Status commit();

  // Syncs and closes.
  Status finish_writing();
  // Renames the temporary to `path`. If `replaces` is false, an existing file is kIoError.
  Status put_in_place(bool replaces = true);
  // Refers to the temporary; valid until finish_writing().
  int descriptor() const { return file_.get(); }

 private:
  AtomicFileWriter(std::string path, TemporaryName temporary, FileDescriptor file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_;
  TemporaryName temporary_;
  FileDescriptor file_;
};

// A name for a temporary in the folder of `path`.
std::string temporary_beside(const std::string& path);

// Writes `bytes` to `temporary` (which must not exist yet and must be on the same file system),
// syncs it and renames it to `path`. `path` therefore holds its old content or all of the new one,
// never a part. `temporary` is gone afterwards, even after an error. `mode` is subject to the
// umask.
Status write_file_atomically(const std::string& path, std::string_view bytes,
                             const std::string& temporary, unsigned mode = 0666);

// The same with a temporary beside `path`.
Status write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace lssar
