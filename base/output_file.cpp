#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/open_descriptor.h"
#include "base/temporaries.h"
#include "base/write_signals.h"

namespace lssar {
namespace {

constexpr char kStandardOutput[] = "-";
constexpr int kMaxLinks = 40;  // Linux's own limit

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// What a path stands for, with links resolved.
struct Place {
  std::string path;
  bool is_new = false;
  struct stat info = {};  // if it is not new
  int descriptor = -1;    // a file that this process has open already
};

// If `path` is a link in /proc to an open file of this process, its number; else -1. Opening such a
// link again would write at the beginning of the file.
int own_descriptor(const std::string& path) {
  char folder[PATH_MAX];
  if (::realpath(folder_of(path).c_str(), folder) == nullptr) return -1;
  const std::string own = fmt::format("/proc/{}/", ::getpid());
  const std::string name(folder);
  if (!name.starts_with(own) || !name.ends_with("/fd")) return -1;
  return std::atoi(path.substr(path.rfind('/') + 1).c_str());
}

// Links in /proc name open files, which may have no path.
bool is_in_proc(const std::string& path) {
  struct statfs info = {};
  return ::statfs(folder_of(path).c_str(), &info) == 0 &&
         static_cast<uint32_t>(info.f_type) == PROC_SUPER_MAGIC;
}

Result<std::string> link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
  if (n < 0 || n == static_cast<ssize_t>(sizeof target))
    return errno_status("resolve", path, n < 0 ? errno : ENAMETOOLONG);
  std::string found(target, static_cast<size_t>(n));
  return found.starts_with('/') ? found : folder_of(path) + "/" + found;
}

Result<Place> find_place(const std::string& path) {
  Place place;
  if (path.empty()) return invalid_argument("the name of an output file is empty");
  if (path == kStandardOutput) {
    place.path = "standard output";
    place.descriptor = STDOUT_FILENO;
    return place;
  }
  place.path = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    if (::lstat(place.path.c_str(), &place.info) != 0) {
      if (errno != ENOENT) return errno_status("write", path, errno);
      if (place.path.ends_with('/'))
        return io_error(fmt::format("'{}' names a folder: a file is wanted", path));
      if (is_in_proc(place.path)) return errno_status("write", path, ENOENT);  // /dev/fd/77
      place.is_new = true;
      return place;
    }
    if (!S_ISLNK(place.info.st_mode)) return place;
    if (is_in_proc(place.path)) {
      place.descriptor = own_descriptor(place.path);
      if (::stat(place.path.c_str(), &place.info) != 0) return errno_status("write", path, errno);
      return place;
    }
    LSSAR_ASSIGN_OR_RETURN(place.path, link_target(place.path));
  }
  return errno_status("write", path, ELOOP);
}

bool is_through(const Place& place) {
  return place.descriptor >= 0 || (!place.is_new && !S_ISREG(place.info.st_mode)) ||
         (!place.is_new && is_in_proc(place.path));
}

// Returns an error if the place must not be written.
Status check_place(const Place& place, const std::string& path, const OutputOptions& options) {
  if (place.descriptor >= 0 || place.is_new) return {};
  const mode_t mode = place.info.st_mode;
  if (S_ISDIR(mode)) return io_error(fmt::format("'{}' is a folder: a file is wanted", path));
  if (S_ISSOCK(mode)) return io_error(fmt::format("'{}' is a socket: a file is wanted", path));
  if (!S_ISREG(mode)) return {};
  if (!options.replaces)
    return io_error(fmt::format("'{}' is there already and is not replaced", path));
  if ((mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0) {
    return io_error(
        fmt::format("'{}' is read-only (mode {:04o}) and is left as it is", path, mode & 07777));
  }
  if (::faccessat(AT_FDCWD, place.path.c_str(), W_OK, AT_EACCESS) != 0)
    return errno_status("write", path, errno);
  return {};
}

// Returns an error if the file's folder is missing. The error of creating the file would name the
// temporary one.
Status check_folder(const Place& place, const std::string& path) {
  const std::string folder = folder_of(place.path);
  struct stat info = {};
  const int error = ::stat(folder.c_str(), &info) != 0 ? errno
                    : S_ISDIR(info.st_mode)            ? 0
                                                       : ENOTDIR;
  if (error == 0) return {};
  return io_error(
      fmt::format("cannot write '{}': folder '{}': {}", path, folder, std::strerror(error)));
}

// Creates the new file, with as much of the old file's mode and owner as can be kept.
Result<AtomicFileWriter> create_beside(const Place& place, const OutputOptions& options) {
  const std::string temporary = temporary_beside(place.path);
  if (place.is_new) return AtomicFileWriter::create(place.path, temporary, options.mode);
  LSSAR_ASSIGN_OR_RETURN(AtomicFileWriter file,
                         AtomicFileWriter::create(place.path, temporary, S_IRUSR | S_IWUSR));
  // Only root may give a file to another user, and only members of a group may give it to that
  // group. Otherwise the writer owns the file.
  if (::fchown(file.descriptor(), place.info.st_uid, place.info.st_gid) != 0)
    (void)!::fchown(file.descriptor(), static_cast<uid_t>(-1), place.info.st_gid);
  const mode_t kept = place.info.st_mode & 0777 & (options.mode | 0111);
  if (::fchmod(file.descriptor(), kept) != 0) return errno_status("set mode of", temporary, errno);
  return file;
}

// Handles EAGAIN: another process with the same terminal or pipe may have made it non-blocking.
Status write_through(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd wait = {fd, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
      continue;
    }
    if (n < 0) return errno_status("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path, const OutputOptions& options) {
  Place place = {.path = path, .is_new = true};
  if (!options.is_own_name) {
    LSSAR_ASSIGN_OR_RETURN(place, find_place(path));
  }
  LSSAR_RETURN_IF_ERROR(check_place(place, path, options));
  OutputFile file;
  file.path_ = place.descriptor == STDOUT_FILENO ? place.path : path;
  file.replaces_ = options.replaces;
  if (!is_through(place)) {
    LSSAR_RETURN_IF_ERROR(check_folder(place, path));
    Result<AtomicFileWriter> atomic = create_beside(place, options);
    if (!atomic.ok()) return atomic.status().with_context(fmt::format("'{}'", path));
    file.atomic_.emplace(std::move(*atomic));
    return file;
  }
  file.is_standard_output_ = place.descriptor == STDOUT_FILENO;
  std::fflush(stdout);  // what was printed earlier must come first
  file.through_ =
      place.descriptor >= 0
          ? FileDescriptor(::fcntl(place.descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1))
          : open_descriptor(place.path, O_WRONLY | O_TRUNC | O_NOCTTY);
  if (file.through_.get() < 0) return errno_status("write", file.path_, errno);
  return file;
}

Status OutputFile::append(std::string_view bytes) {
  if (atomic_) return atomic_->append(bytes).with_context(fmt::format("'{}'", path_));
  // `lssar emit | head` must end by SIGPIPE, as other commands do.
  if (is_standard_output_) return write_through(through_.get(), bytes, path_);
  const WriteSignalGuard guard;
  return write_through(through_.get(), bytes, path_);
}

Status OutputFile::finish_writing() {
  if (atomic_) return atomic_->finish_writing().with_context(fmt::format("'{}'", path_));
  // Pipes and terminals cannot be synced, so only EIO is an error.
  if (!is_standard_output_ && sync_descriptor(through_.get()) != 0 && errno == EIO)
    return errno_status("sync", path_, errno);
  return through_.close() == 0 ? Status() : errno_status("close", path_, errno);
}

Status OutputFile::put_in_place() { return atomic_ ? atomic_->put_in_place(replaces_) : Status(); }

Status OutputFile::commit() {
  LSSAR_RETURN_IF_ERROR(finish_writing());
  return put_in_place();
}

Status commit_all(std::vector<OutputFile> files) {
  for (OutputFile& file : files) LSSAR_RETURN_IF_ERROR(file.finish_writing());
  const TemporariesLock together = lock_temporaries();
  for (OutputFile& file : files) LSSAR_RETURN_IF_ERROR(file.put_in_place());
  return {};
}

Status write_output_file(const std::string& path, std::string_view bytes,
                         const OutputOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path, options));
  LSSAR_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

Status check_output_file(const std::string& path, const OutputOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const Place place, find_place(path));
  LSSAR_RETURN_IF_ERROR(check_place(place, path, options));
  if (is_through(place)) return {};
  LSSAR_RETURN_IF_ERROR(check_folder(place, path));
  const std::string folder = folder_of(place.path);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return io_error(
      fmt::format("cannot write '{}': folder '{}': {}", path, folder, std::strerror(errno)));
}

bool is_standard_output(const std::string& path) {
  const Result<Place> place = find_place(path);
  return place.ok() && place->descriptor == STDOUT_FILENO;
}

}  // namespace lssar
