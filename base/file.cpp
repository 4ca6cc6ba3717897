#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

namespace lssar {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // NOTE: close may be the call that reports a failed write (NFS), so a writer asks for its result.
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd);
  }

 private:
  int fd_;
};

Status errno_status(const char* what, const std::string& path, int error) {
  return io_error(fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

Status read_exactly(int fd, const std::string& path, std::string* bytes) {
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t n = ::read(fd, bytes->data() + done, bytes->size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("read", path, errno);
    if (n == 0) return io_error(fmt::format("'{}' became shorter while it was read", path));
    done += static_cast<size_t>(n);
  }
  return {};
}

FileState state_of(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Status check_readable(const struct stat& info, const std::string& path,
                      const FileReadOptions& options) {
  if (!S_ISREG(info.st_mode)) return io_error(fmt::format("'{}' is not a regular file", path));
  if (static_cast<uint64_t>(info.st_size) > options.max_bytes) {
    return io_error(fmt::format("'{}' has {} bytes: allowed are at most {}", path, info.st_size,
                                options.max_bytes));
  }
  if (!options.require_private) return {};
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return io_error(fmt::format("'{}' belongs to user {}: allowed are {} and root", path,
                                info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return io_error(fmt::format("'{}' has mode {:04o}: group and others must not be able to write",
                                path, info.st_mode & 07777));
  }
  return {};
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status write_and_sync(const std::string& path, std::string_view bytes, unsigned mode) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                             static_cast<mode_t>(mode)));
  if (file.get() < 0) return errno_status("create", path, errno);
  Status status = write_all(file.get(), bytes, path);
  if (status.ok() && ::fsync(file.get()) != 0) status = errno_status("sync", path, errno);
  if (file.close() != 0 && status.ok()) status = errno_status("close", path, errno);
  if (!status.ok()) ::unlink(path.c_str());
  return status;
}

std::string host_name() {
  char buffer[65] = {};  // POSIX host names have at most 64 bytes on Linux
  if (::gethostname(buffer, sizeof buffer - 1) != 0) return "unknown";
  std::string name(buffer);
  std::erase_if(name, [](unsigned char c) { return !std::isalnum(c) && c != '.'; });
  return name;
}

}  // namespace

Result<std::string> read_file(const std::string& path, const FileReadOptions& options,
                              FileState* state) {
  // O_NONBLOCK: opening a pipe that nobody writes must not hang.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (options.require_private ? O_NOFOLLOW : 0);
  FileDescriptor file(::open(path.c_str(), flags));
  if (file.get() < 0) return errno_status("open", path, errno);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return errno_status("read", path, errno);
  LSSAR_RETURN_IF_ERROR(check_readable(info, path, options));
  if (state != nullptr) *state = state_of(info);
  const auto size = static_cast<uint64_t>(info.st_size);
  try {
    std::string bytes(size, '\0');
    LSSAR_RETURN_IF_ERROR(read_exactly(file.get(), path, &bytes));
    return bytes;
  } catch (const std::bad_alloc&) {
    return out_of_memory(fmt::format("'{}' has {} bytes, more than there is memory", path, size));
  }
}

std::string unique_file_name() {
  // The kernel gives fresh bits after fork too, which a generator of our own would not.
  static std::atomic<uint64_t> counter{0};
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  random += counter++;
  return fmt::format("{}-{}-{}-{:016x}", host_name(), ::getpid(),
                     static_cast<long>(::syscall(SYS_gettid)), random);
}

Status write_file_atomically(const std::string& path, std::string_view bytes,
                             const std::string& temporary, unsigned mode) {
  LSSAR_RETURN_IF_ERROR(write_and_sync(temporary, bytes, mode));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return errno_status("write", path, error);
  }
  return {};
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const Status status =
      write_file_atomically(path, bytes, folder + "." + unique_file_name() + ".tmp");
  return status.with_context(fmt::format("'{}'", path));
}

}  // namespace lssar
