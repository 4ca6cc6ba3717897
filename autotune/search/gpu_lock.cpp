#include "autotune/search/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace lssar {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::string lock_path(const std::string& name) {
  const char* directory = std::getenv("TMPDIR");
  std::string path = directory != nullptr && *directory != '\0' ? directory : "/tmp";
  path += "/lssar-tune-";
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    path += is_plain ? c : '_';
  }
  return path + ".lock";
}

// Opens the file for reading, also for the user who made it: a lock needs no more, and a sticky
// directory may refuse to open another user's file for writing or creation.
Result<int> open_lock_file(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  for (int attempt = 0; attempt < 3; ++attempt) {
    int fd = ::open(path.c_str(), kFlags);
    if (fd < 0 && errno == ENOENT) {
      fd = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0444);
      if (fd >= 0) ::fchmod(fd, 0444);  // whatever the umask is: others must be able to wait, too
    }
    if (fd >= 0) {
      struct stat state = {};
      if (::fstat(fd, &state) == 0 && S_ISREG(state.st_mode)) return fd;
      ::close(fd);
      return io_error(fmt::format("{}: not a regular file", path));
    }
    if (errno != EEXIST) break;  // another process made it in between: open that one
  }
  return io_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

// Who holds a flock on the file, by /proc/locks: " (process 1234)", or "" if it does not say.
std::string holder_text(int fd) {
  struct stat state = {};
  if (::fstat(fd, &state) != 0) return "";
  const std::string inode = ":" + std::to_string(state.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, pid, file;
    words >> number >> kind >> mode >> access >> pid >> file;
    if (kind == "FLOCK" && file.ends_with(inode)) return fmt::format(" (process {})", pid);
  }
  return "";
}

}  // namespace

Result<GpuLock> GpuLock::take(const std::string& name, double timeout_s,
                              const std::function<bool()>& cancelled) {
  const std::string path = lock_path(name);
  LSSAR_ASSIGN_OR_RETURN(const int fd, open_lock_file(path));
  GpuLock lock(fd, path);
  bool has_told = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return io_error(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    const bool is_cancelled = cancelled && cancelled();
    if (is_cancelled || std::chrono::steady_clock::now() >= deadline) {
      return device_error(
          fmt::format("another process is tuning this GPU: it holds {}, {} {:.0f} s", path,
                      is_cancelled ? "cancelled before" : "waited", timeout_s));
    }
    if (!std::exchange(has_told, true)) {
      log(LogLevel::kWarning,
          fmt::format("another process{} is tuning on this device: waiting for it, at most {:.0f} s",
                      holder_text(fd), timeout_s));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

GpuLock::GpuLock(GpuLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

GpuLock& GpuLock::operator=(GpuLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

GpuLock::~GpuLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace lssar
