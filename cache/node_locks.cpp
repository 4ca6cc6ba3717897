#include "cache/node_locks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/open_descriptor.h"
#include "base/temporaries.h"

namespace lssar {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{1}, kLongestPause{50};

// All keys share one file. A key's lock is a lock of one byte far beyond the file's end, so there
// is never anything to clean up. Two keys that share a byte only wait for each other.
int64_t offset_of(const Sha256Digest& key) {
  uint64_t bits = 0;
  std::memcpy(&bits, key.data(), sizeof bits);
  return static_cast<int64_t>(bits >> 2);
}

// NOTE: these locks belong to the open file (OFD), not to the process. So they also exclude threads
// and stores of the same process, and closing another descriptor of the file does not release them.
bool set_lock(int fd, int64_t offset, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// NOTE: POSIX also allows EACCES here, but Linux returns it if locking itself is forbidden. Waiting
// would then be useless.
bool is_contention(int error) { return error == EAGAIN; }

std::vector<std::string> candidates() { return {"/dev/shm", temporary_folder(), "/tmp"}; }

}  // namespace

NodeLocks::NodeLocks(FileSystem& fs, std::string directory)
    : fs_(fs), configured_(std::move(directory)) {}

// NOTE: unlock before closing, because a child forked in the meantime holds the open file too.
NodeLocks::Held::~Held() {
  if (file_.get() >= 0) set_lock(file_.get(), offset_, F_UNLCK);
}

Result<std::string> NodeLocks::find_folder() {
  if (!configured_.empty()) {
    std::error_code error;
    const std::string path = std::filesystem::absolute(configured_, error).string();
    LSSAR_RETURN_IF_ERROR(fs_.prepare_folder(path));
    if (fs_.is_node_local(path)) return path;
    return io_error(fmt::format("'{}' is not known to be a file system of this machine", path));
  }
  std::string problems;
  for (const std::string& parent : candidates()) {
    if (!fs_.is_node_local(parent)) {
      problems += fmt::format("; '{}' is not known to be a file system of this machine", parent);
      continue;
    }
    std::string path = fmt::format("{}/lssar-lock-{}", parent, ::geteuid());
    const Status status = fs_.prepare_folder(path);
    if (status.ok()) return path;
    problems += "; " + status.message();
  }
  return io_error("there is no folder for locks" + problems);
}

Result<std::string> NodeLocks::folder() {
  const std::lock_guard lock(mutex_);
  if (!looked_) {
    looked_ = true;
    const Result<std::string> found = find_folder();
    if (found.ok()) {
      folder_ = *found;
    } else {
      problem_ = found.status();
      log(LogLevel::kInfo,
          "cache: no locks, so processes may compute the same key twice: " + problem_.message());
    }
  }
  if (folder_.empty()) return problem_;
  return folder_;
}

NodeLocks::Outcome NodeLocks::take(const Sha256Digest& key, milliseconds timeout, Held* held) {
  const Result<std::string> folder_path = folder();
  if (!folder_path.ok()) return Outcome::kUnavailable;
  const std::string path = *folder_path + "/lock";
  FileDescriptor file =
      open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kPrivateFileMode);
  if (file.get() < 0) {
    log(LogLevel::kDebug, fmt::format("cache: no lock: '{}': {}", path, std::strerror(errno)));
    return Outcome::kUnavailable;
  }
  const int64_t offset = offset_of(key);
  if (set_lock(file.get(), offset, F_WRLCK)) {
    *held = Held(std::move(file), offset);
    return Outcome::kHeld;
  }
  if (!is_contention(errno)) {
    log(LogLevel::kDebug, fmt::format("cache: no lock in '{}': {}", path, std::strerror(errno)));
    return Outcome::kUnavailable;
  }
  log(LogLevel::kDebug, "cache: another process computes " + to_hex(key) + ": waiting for it");
  return wait(std::move(file), offset, timeout);
}

// Waiters ask for a shared lock, so all of them continue at once when the computing process is
// done. If it did not write the entry, each computes it without making the others wait again.
NodeLocks::Outcome NodeLocks::wait(FileDescriptor file, int64_t offset, milliseconds timeout) {
  const steady_clock::time_point deadline = steady_clock::now() + timeout;
  for (milliseconds pause = kFirstPause; steady_clock::now() < deadline;
       pause = std::min(2 * pause, kLongestPause)) {
    std::this_thread::sleep_for(pause);
    if (set_lock(file.get(), offset, F_RDLCK)) {
      set_lock(file.get(), offset, F_UNLCK);
      return Outcome::kOthersDone;
    }
    if (!is_contention(errno)) return Outcome::kUnavailable;
  }
  return Outcome::kTimeout;
}

}  // namespace lssar
