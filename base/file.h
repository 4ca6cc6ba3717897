// Files: read one into memory or parts of it, write one atomically. Used for what the library
// writes under names of its own, the binary cache first; a name that a user gave is written by
// base/output_file.h.
//
// Threads: no shared state; every function may be called from any thread at once. An InputFile may
// be read by any number of threads; an AtomicFileWriter belongs to one.
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

// Modes of files that hold somebody's data or code to run, and of those that are made to be shared.
inline constexpr unsigned kPrivateFileMode = 0600;
inline constexpr unsigned kSharedFileMode = 0644;

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

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
  // NOTE: close may be the call that reports a failed write (NFS), so a writer asks for its result.
  int close();

 private:
  int fd_;
};

// A regular file that is open for reading: what is read stays the same file, whatever becomes of
// its name.
class InputFile {
 public:
  // kIoError where it cannot be opened, is not a regular file or `options` forbid it; the message
  // names the path.
  static Result<InputFile> open(const std::string& path, const FileReadOptions& options = {});

  const std::string& path() const { return path_; }
  const FileState& state() const { return state_; }  // when it was opened
  // Exactly `count` bytes from `offset`. kIoError where the file has fewer by now, kOutOfMemory.
  Result<std::string> read_at(uint64_t offset, uint64_t count) const;

 private:
  InputFile(std::string path, FileDescriptor file, const FileState& state)
      : path_(std::move(path)), file_(std::move(file)), state_(state) {}

  std::string path_;
  FileDescriptor file_;
  FileState state_;
};

// The bytes of a regular file, and (where `state` is not null) its state when they were read.
// kIoError where it cannot be read, is not a regular file or `options` forbid it; the message names
// the path.
Result<std::string> read_file(const std::string& path, const FileReadOptions& options = {},
                              FileState* state = nullptr);

// A name nobody else makes: "<host>-<pid>-<thread>-<random>", of letters, digits, '.' and '-' only.
// Processes that share a network folder do not collide, nor do threads, nor a reused pid.
std::string unique_file_name();

// A file written piece by piece: `path` has its old content, or none, until commit() has put all of
// the new one in its place, whatever had that name. `temporary` must not exist and must be on the
// same file system; it is gone after commit(), and with the writer. A file beyond `ulimit -f` is an
// error like a full disk: no signal reaches the program.
class AtomicFileWriter {
 public:
  // `mode` is subject to the umask.
  static Result<AtomicFileWriter> create(const std::string& path, const std::string& temporary,
                                         unsigned mode = 0666);

  Status append(std::string_view bytes);
  // Calls finish_writing and put_in_place. No call may follow, whatever this one returns.
  Status commit();

  // Syncs and closes.
  Status finish_writing();
  // Renames. `replaces` false: kIoError where there is something under that name.
  Status put_in_place(bool replaces = true);
  // Open on the temporary until finish_writing().
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

// Writes `bytes` to `temporary` (which must not exist and must be on the same file system), syncs
// it and renames it over `path`: `path` has its old content or all of the new one, never a part.
// `temporary` is gone afterwards, whatever happened. `mode` is subject to the umask.
Status write_file_atomically(const std::string& path, std::string_view bytes,
                             const std::string& temporary, unsigned mode = 0666);

// The same with a temporary beside `path`.
Status write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace lssar
