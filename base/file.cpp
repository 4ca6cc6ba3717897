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

#include "base/open_descriptor.h"
#include "base/write_signals.h"

namespace lssar {

Status errno_status(const char* what, const std::string& path, int error) {
  return io_error(fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

namespace {

FileState state_of(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .mtime_ns = int64_t{info.st_mtim.tv_sec} * kNsPerSecond + info.st_mtim.tv_nsec};
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

std::string host_name() {
  char buffer[65] = {};  // POSIX host names have at most 64 bytes on Linux
  if (::gethostname(buffer, sizeof buffer - 1) != 0) return "unknown";
  std::string name(buffer);
  std::erase_if(name, [](unsigned char c) { return !std::isalnum(c) && c != '.'; });
  return name;
}

}  // namespace

int FileDescriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 ? 0 : ::close(fd);
}

Result<InputFile> InputFile::open(const std::string& path, const FileReadOptions& options) {
  // Without O_NONBLOCK, opening a pipe that nobody writes would hang.
  const int flags = O_RDONLY | O_NONBLOCK | (options.require_private ? O_NOFOLLOW : 0);
  FileDescriptor file = open_descriptor(path, flags);
  if (file.get() < 0) return errno_status("open", path, errno);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return errno_status("read", path, errno);
  LSSAR_RETURN_IF_ERROR(check_readable(info, path, options));
  return InputFile(path, std::move(file), state_of(info));
}

Result<std::string> InputFile::read_at(uint64_t offset, uint64_t count) const {
  try {
    std::string bytes(count, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::pread(file_.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_status("read", path_, errno);
      if (n == 0) return io_error(fmt::format("'{}' became shorter while it was read", path_));
      done += static_cast<size_t>(n);
    }
    return bytes;
  } catch (const std::bad_alloc&) {
    return out_of_memory(
        fmt::format("{} bytes of '{}' are more than there is memory", count, path_));
  }
}

Result<std::string> read_file(const std::string& path, const FileReadOptions& options,
                              FileState* state) {
  LSSAR_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path, options));
  if (state != nullptr) *state = file.state();
  return file.read_at(0, file.state().size_bytes);
}

std::string unique_file_name() {
  // The kernel's random bits stay distinct after fork. A generator of our own would repeat itself.
  static std::atomic<uint64_t> counter{0};
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  random += counter++;
  return fmt::format("{}-{}-{}-{:016x}", host_name(), ::getpid(),
                     static_cast<long>(::syscall(SYS_gettid)), random);
}

Result<AtomicFileWriter> AtomicFileWriter::create(const std::string& path,
                                                  const std::string& temporary, unsigned mode) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  TemporaryName name(temporary);
  FileDescriptor file = open_descriptor(temporary, flags, static_cast<mode_t>(mode));
  if (file.get() < 0) {
    const int error = errno;
    name.keep();  // the file may belong to somebody else
    return errno_status("create", temporary, error);
  }
  return AtomicFileWriter(path, std::move(name), std::move(file));
}

Status AtomicFileWriter::append(std::string_view bytes) {
  const WriteSignalGuard guard;
  return write_all(file_.get(), bytes, temporary_.path());
}

Status AtomicFileWriter::finish_writing() {
  if (sync_descriptor(file_.get()) != 0) return errno_status("sync", temporary_.path(), errno);
  if (file_.close() != 0) return errno_status("close", temporary_.path(), errno);
  return {};
}

Status AtomicFileWriter::put_in_place(bool replaces) {
  const char* const from = temporary_.path().c_str();
  int failed = 0;
  if (replaces) {
    failed = ::rename(from, path_.c_str());
  } else {
    // link() never replaces a file. File systems without links may support RENAME_NOREPLACE.
    failed = ::link(from, path_.c_str());
    if (failed == 0) return {};  // the writer's destructor removes the temporary name
    if (errno != EEXIST)
      failed = ::renameat2(AT_FDCWD, from, AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
  }
  if (failed != 0) return errno_status("write", path_, errno);
  temporary_.keep();
  return {};
}

Status AtomicFileWriter::commit() {
  LSSAR_RETURN_IF_ERROR(finish_writing());
  return put_in_place();
}

std::string temporary_beside(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return folder + "." + unique_file_name() + ".tmp";
}

Status write_file_atomically(const std::string& path, std::string_view bytes,
                             const std::string& temporary, unsigned mode) {
  LSSAR_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::create(path, temporary, mode));
  LSSAR_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  return write_file_atomically(path, bytes, temporary_beside(path))
      .with_context(fmt::format("'{}'", path));
}

}  // namespace lssar
