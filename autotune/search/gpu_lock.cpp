#include "autotune/search/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/open_descriptor.h"
#include "base/temporaries.h"

namespace lssar {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

std::string lock_path(const std::string& name) {
  std::string path = temporary_folder() + "/lssar-tune-";
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    path += is_plain ? c : '_';
  }
  return path + ".lock";
}

Status lock_error(const std::string& path, const char* why) {
  return io_error(
      fmt::format("cannot lock the device for tuning: '{}' (in TMPDIR, else /tmp): {}", path, why));
}

// Opens the file for reading, also for the user who made it: a lock needs no more, and a sticky
// directory may refuse to open another user's file for writing or creation.
Result<FileDescriptor> open_lock_file(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW;
  for (int attempt = 0; attempt < 3; ++attempt) {
    FileDescriptor file = open_descriptor(path, kFlags);
    if (file.get() < 0 && errno == ENOENT) {
      file = open_descriptor(path, kFlags | O_CREAT | O_EXCL, 0444);
      // Whatever the umask says: others must be able to wait too.
      if (file.get() >= 0) ::fchmod(file.get(), 0444);
    }
    if (file.get() >= 0) {
      struct stat state = {};
      if (::fstat(file.get(), &state) == 0 && S_ISREG(state.st_mode)) return file;
      return lock_error(path, "not a regular file");
    }
    if (errno != EEXIST) break;  // another process made it in between: open that one
  }
  return lock_error(path, std::strerror(errno));
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
  LSSAR_ASSIGN_OR_RETURN(FileDescriptor file, open_lock_file(path));
  const int fd = file.get();
  GpuLock lock(std::move(file), path);
  bool has_told = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return lock_error(path, std::strerror(errno));
    }
    const bool is_cancelled = cancelled && cancelled();
    if (is_cancelled || std::chrono::steady_clock::now() >= deadline) {
      return device_error(
          fmt::format("another process is tuning this device: it holds {}, {} {:.0f} s", path,
                      is_cancelled ? "cancelled before" : "waited", timeout_s));
    }
    if (!std::exchange(has_told, true)) {
      log(LogLevel::kWarning,
          fmt::format(
              "another process{} is tuning on this device: waiting for it, at most {:.0f} s",
              holder_text(fd), timeout_s));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace lssar
