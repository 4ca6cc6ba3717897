#include "cache/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>

namespace lssar {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr uint64_t kStatBlockBytes = 512;  // POSIX: the unit of st_blocks

// The statfs numbers of file systems that only one machine mounts. This is an allow-list, because a
// network file system may have any number, and locks on network file systems have hung whole jobs.
constexpr uint32_t kXfsMagic = 0x58465342, kZfsMagic = 0x2fc12fc1, kBcachefsMagic = 0xca451a4e;
constexpr uint32_t kLocalFileSystems[] = {
    TMPFS_MAGIC,      RAMFS_MAGIC, EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC, kXfsMagic,   kZfsMagic,        kBcachefsMagic};

FileState state_of(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .mtime_ns = int64_t{info.st_mtim.tv_sec} * kNsPerSecond + info.st_mtim.tv_nsec};
}

// Sets the mode regardless of the umask. Otherwise a strange umask would leave a folder that no
// later process can use.
bool make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), kFolderMode) == 0) return ::chmod(path.c_str(), kFolderMode) == 0;
  return errno == EEXIST;
}

// mkdir -p. Existing folders on the way may be links. The caller checks the last component.
Status make_folders(const std::string& path) {
  if (make_folder(path)) return {};
  const size_t slash = path.rfind('/');
  if (errno != ENOENT || slash == std::string::npos || slash == 0) {
    return errno_status("make folder", path, errno);
  }
  LSSAR_RETURN_IF_ERROR(make_folders(path.substr(0, slash)));
  if (make_folder(path)) return {};
  return errno_status("make folder", path, errno);
}

class PosixFileSystem final : public FileSystem {
 public:
  Status prepare_folder(const std::string& path) override {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) LSSAR_RETURN_IF_ERROR(make_folders(path));
    return check_folder(path);
  }

  Status check_folder(const std::string& path) override {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) return errno_status("use folder", path, errno);
    if (S_ISLNK(info.st_mode)) {
      return io_error(fmt::format("'{}' is a symbolic link: the folder itself is wanted", path));
    }
    if (!S_ISDIR(info.st_mode)) return io_error(fmt::format("'{}' is not a folder", path));
    if (info.st_uid != ::geteuid() && info.st_uid != 0) {
      return io_error(fmt::format("folder '{}' belongs to user {}: allowed are {} and root", path,
                                  info.st_uid, ::geteuid()));
    }
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      return io_error(fmt::format(
          "folder '{}' has mode {:04o}: group and others must not be able to write (chmod 700)",
          path, info.st_mode & 07777));
    }
    return {};
  }

  bool is_node_local(const std::string& path) override {
    struct statfs info = {};
    if (::statfs(path.c_str(), &info) != 0) return false;
    const auto type = static_cast<uint32_t>(info.f_type);
    return std::find(std::begin(kLocalFileSystems), std::end(kLocalFileSystems), type) !=
           std::end(kLocalFileSystems);
  }

  Result<std::string> read_private(const std::string& path, uint64_t max_bytes,
                                   FileState* state) override {
    return read_file(path, {.max_bytes = max_bytes, .require_private = true}, state);
  }

  Status write(const std::string& path, std::string_view bytes,
               const std::string& temporary) override {
    LSSAR_ASSIGN_OR_RETURN(AtomicFileWriter file,
                           AtomicFileWriter::create(path, temporary, kPrivateFileMode));
    if (::fchmod(file.descriptor(), kPrivateFileMode) != 0)  // regardless of the umask
      return errno_status("set mode of", temporary, errno);
    LSSAR_RETURN_IF_ERROR(file.append(bytes));
    return file.commit();
  }

  Result<std::vector<ListedFile>> list(const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
    if (!dir) return errno_status("list", folder, errno);
    std::vector<ListedFile> files;
    while (const dirent* item = ::readdir(dir.get())) {
      struct stat info = {};
      if (::fstatat(::dirfd(dir.get()), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (!S_ISREG(info.st_mode)) continue;
      const uint64_t blocks_bytes = static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
      const FileState state = state_of(info);
      files.push_back({item->d_name, state, std::max(blocks_bytes, state.size_bytes)});
    }
    return files;
  }

  Status remove(const std::string& path, const FileState& state) override {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) return errno_status("remove", path, errno);
    if (info.st_uid != ::geteuid()) {
      return io_error(fmt::format("'{}' belongs to user {}: not removed", path, info.st_uid));
    }
    if (state_of(info) != state) {
      return io_error(fmt::format("'{}' was replaced meanwhile: not removed", path));
    }
    if (::unlink(path.c_str()) != 0) return errno_status("remove", path, errno);
    return {};
  }

  Status stamp(const std::string& path, int64_t time_ns) override {
    const timespec time = {.tv_sec = time_ns / kNsPerSecond, .tv_nsec = time_ns % kNsPerSecond};
    const timespec times[2] = {time, time};
    if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_status("stamp", path, errno);
    }
    return {};
  }

  int64_t now_ns() override {
    using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::system_clock;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static auto* const instance = new PosixFileSystem;
  return *instance;
}

}  // namespace lssar
