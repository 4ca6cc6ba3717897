// Writing a tuning table's file: append and rewrite, under its lock.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "autotune/table/table_lines.h"
#include "autotune/table/tuning_table.h"
#include "base/open_descriptor.h"
#include "base/output_file.h"
#include "base/write_signals.h"
#include "cache/file_system.h"

namespace lssar {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLockPatience{10'000};  // an append takes milliseconds
constexpr milliseconds kLockPause{1};

Status table_errno(const char* what, const std::string& path, int error) {
  return io_error(fmt::format("cannot {} tuning table '{}': {}", what, path, std::strerror(error)));
}

// The open file and its lock, which ends with it.
class LockedFile {
 public:
  // Opens the file that `path` names once the lock is held. Another process may have replaced it
  // meanwhile.
  Status open(const std::string& path, int extra_flags) {
    path_ = path;
    for (;;) {
      file_ = open_descriptor(path, O_RDWR | O_APPEND | O_NONBLOCK | extra_flags, kPrivateFileMode);
      if (file_.get() < 0) return table_errno("open", path_, errno);
      LSSAR_RETURN_IF_ERROR(lock());
      struct stat opened = {}, named = {};
      if (::fstat(file_.get(), &opened) != 0) return table_errno("read", path_, errno);
      if (!S_ISREG(opened.st_mode)) {
        return io_error(fmt::format("tuning table '{}' is not a regular file", path_));
      }
      if ((opened.st_mode & 0222) == 0) {  // root's open ignores it
        return io_error(fmt::format("tuning table '{}' is read-only (mode {:04o})", path_,
                                    opened.st_mode & 07777));
      }
      size_ = opened.st_size;
      if (::stat(path.c_str(), &named) == 0 && named.st_dev == opened.st_dev &&
          named.st_ino == opened.st_ino) {
        return {};
      }
    }
  }

  off_t size() const { return size_; }

  // `count` bytes from `offset`, or as many as there are.
  Result<std::string> read(off_t offset, size_t count) const {
    std::string bytes(count, '\0');
    size_t done = 0;
    while (done < count) {
      const ssize_t n = ::pread(file_.get(), bytes.data() + done, count - done,
                                offset + static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return table_errno("read", path_, errno);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    bytes.resize(done);
    return bytes;
  }

  // Writes all of it, or nothing if the disk is full. It is on disk when this returns.
  Status append(std::string_view bytes) const {
    const WriteSignalGuard guard;
    ssize_t n = 0;
    do n = ::write(file_.get(), bytes.data(), bytes.size());
    while (n < 0 && errno == EINTR);
    if (n < 0) return table_errno("write", path_, errno);
    if (static_cast<size_t>(n) < bytes.size()) {
      const bool is_undone = ::ftruncate(file_.get(), size_) == 0;
      return io_error(fmt::format("tuning table '{}': {} of {} bytes written{}", path_, n,
                                  bytes.size(), is_undone ? " and taken back" : ""));
    }
    while (::fdatasync(file_.get()) != 0) {
      if (errno != EINTR) return table_errno("flush", path_, errno);
    }
    return {};
  }

 private:
  // NOTE: flock would wait for ever if a network file system lost the lock's holder.
  Status lock() const {
    const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
    while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      // A file system without locks. Each append is one write, so little can happen.
      if (errno != EWOULDBLOCK) return {};
      if (std::chrono::steady_clock::now() > deadline) {
        return io_error(fmt::format("tuning table '{}': another process has locked it for {} s",
                                    path_, kLockPatience.count() / 1000));
      }
      std::this_thread::sleep_for(kLockPause);
    }
    return {};
  }

  std::string path_;
  FileDescriptor file_;
  off_t size_ = 0;
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status make_folder(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) == 0) return {};  // also if it is a link
  return posix_file_system().prepare_folder(folder);
}

// A new name survives a power failure only once its folder is on disk.
void sync_folder(const std::string& folder) {
  const FileDescriptor file = open_descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (file.get() >= 0) sync_descriptor(file.get());
}

// What must be written before new lines: the header, or its rest, or the end of a torn line.
Result<std::string> bytes_before(const LockedFile& file, const std::string& path) {
  constexpr size_t kMostHeaderBytes = 200;
  const std::string header = header_line();
  LSSAR_ASSIGN_OR_RETURN(const std::string start, file.read(0, kMostHeaderBytes));
  if (header.starts_with(start)) return header.substr(start.size());
  const int version = header_version(start.substr(0, start.find('\n')));
  if (version == 0) {
    return io_error(
        fmt::format("'{}' does not begin as a tuning table: nothing was written to it", path));
  }
  if (version > kTableVersion) {
    return unsupported(
        fmt::format("tuning table '{}' has version {} of the format, this library knows {}: "
                    "nothing was written to it",
                    path, version, kTableVersion));
  }
  LSSAR_ASSIGN_OR_RETURN(const std::string last, file.read(file.size() - 1, 1));
  return std::string(last == "\n" ? "" : "\n");
}

Status append_to(const LockedFile& file, const std::string& path,
                 const std::vector<TuningRecord>& records) {
  LSSAR_ASSIGN_OR_RETURN(std::string bytes, bytes_before(file, path));
  for (const TuningRecord& record : records) bytes += record_line(record);
  if (bytes.empty()) return {};
  LSSAR_RETURN_IF_ERROR(file.append(bytes));
  if (file.size() == 0) sync_folder(folder_of(path));
  return {};
}

Status open_or_make(LockedFile& file, const std::string& path) {
  LSSAR_RETURN_IF_ERROR(make_folder(folder_of(path)));
  return file.open(path, O_CREAT);
}

// The folder of `path`, or the nearest above it that exists.
std::string existing_folder(const std::string& path) {
  std::string folder = folder_of(path);
  struct stat info = {};
  while (::stat(folder.c_str(), &info) != 0 && errno == ENOENT && folder != "." && folder != "/")
    folder = folder_of(folder);
  return folder;
}

}  // namespace

Status check_can_append(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    LockedFile file;
    LSSAR_RETURN_IF_ERROR(file.open(path, 0));
    return bytes_before(file, path).status();
  }
  if (errno != ENOENT) return table_errno("open", path, errno);
  const std::string folder = existing_folder(path);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return table_errno("make", path, errno);
}

Status append_records(const std::string& path, const std::vector<TuningRecord>& records) {
  LockedFile file;
  LSSAR_RETURN_IF_ERROR(open_or_make(file, path));
  return append_to(file, path, records);
}

Result<std::vector<TuningRecord>> append_missing_records(const std::string& path,
                                                         const TuningTable& given) {
  if (given.records().empty()) return std::vector<TuningRecord>();
  LockedFile file;
  LSSAR_RETURN_IF_ERROR(open_or_make(file, path));
  LSSAR_ASSIGN_OR_RETURN(TuningTable known, TuningTable::load(path));
  const auto old_count = static_cast<std::ptrdiff_t>(known.records().size());
  known.merge(given);
  const std::vector<TuningRecord> missing(known.records().begin() + old_count,
                                          known.records().end());
  if (!missing.empty()) LSSAR_RETURN_IF_ERROR(append_to(file, path, missing));
  return missing;
}

Result<bool> rewrite_table(const std::string& path, const std::string& backup,
                           const std::function<TuningTable(TuningTable)>& edit) {
  LockedFile file;
  LSSAR_RETURN_IF_ERROR(file.open(path, 0));
  LSSAR_ASSIGN_OR_RETURN(const std::string old, file.read(0, static_cast<size_t>(file.size())));
  LSSAR_RETURN_IF_ERROR(bytes_before(file, path).status());
  TuningTable table = TuningTable::parse(old, path);
  if (table.defects().newer_version != 0) {
    return unsupported(fmt::format("tuning table '{}': {}", path, table.defects().first));
  }
  const TuningTable edited = edit(std::move(table));
  std::string text = header_line();
  for (const TuningRecord& record : edited.records()) text += record_line(record);
  if (text == old) return false;
  if (!backup.empty()) LSSAR_RETURN_IF_ERROR(write_output_file(backup, old));
  LSSAR_RETURN_IF_ERROR(write_output_file(path, text));
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  if (!error) sync_folder(target.parent_path().string());
  return true;
}

Status write_table_text(const std::string& path,
                        const std::function<Result<std::string>()>& make_text) {
  LSSAR_RETURN_IF_ERROR(check_output_file(path));
  LockedFile file;
  struct stat info = {};
  const bool is_old_file =
      !is_standard_output(path) && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (is_old_file) LSSAR_RETURN_IF_ERROR(file.open(path, 0));
  LSSAR_ASSIGN_OR_RETURN(const std::string text, make_text());
  return write_output_file(path, text);
}

}  // namespace lssar
