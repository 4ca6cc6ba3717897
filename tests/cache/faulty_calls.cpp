#include "tests/cache/faulty_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <utility>

namespace lssar {
namespace {

struct Plan {
  bool armed = false;
  Fault fault = Fault::kNone;
  int call = 0;
  int error = 0;
  size_t short_bytes = 0;  // 0 = whole transfers
  bool interrupted = false;
  std::vector<std::string> calls;
};
thread_local Plan plan;

enum class Verdict { kDo, kRefuse, kDoAndFail };

Verdict judge(const char* name) {
  if (!plan.armed) return Verdict::kDo;
  const int call = static_cast<int>(plan.calls.size());
  plan.calls.emplace_back(name);
  const bool fails = plan.fault == Fault::kFromThen
                         ? call >= plan.call
                         : plan.fault != Fault::kNone && call == plan.call;
  if (!fails) return Verdict::kDo;
  return plan.fault == Fault::kLateOnce ? Verdict::kDoAndFail : Verdict::kRefuse;
}

// The result of `real`, or `failure` with the error of the plan.
template <typename T, typename Real>
T call_or_fail(const char* name, T failure, const Real& real) {
  const Verdict verdict = judge(name);
  if (verdict == Verdict::kDo) return real();
  if (verdict == Verdict::kDoAndFail) (void)real();
  errno = plan.error;
  return failure;
}

template <typename Real>
ssize_t transfer(const char* name, size_t count, const Real& real) {
  if (plan.short_bytes != 0) {
    plan.interrupted = !plan.interrupted;
    if (plan.interrupted) return errno = EINTR, -1;
    return real(std::min(count, plan.short_bytes));
  }
  return call_or_fail<ssize_t>(name, -1, [&] { return real(count); });
}

}  // namespace

void arm_faults(Fault fault, int call, int error) {
  plan = {};
  plan.armed = true;
  plan.fault = fault;
  plan.call = call;
  plan.error = error;
}

void arm_short_transfers(size_t bytes) {
  plan = {};
  plan.short_bytes = bytes;
}

std::vector<std::string> disarm_faults() { return std::exchange(plan, Plan{}).calls; }

}  // namespace lssar

using lssar::call_or_fail;

// NOLINTBEGIN: the linker decides these names.
extern "C" {

int __real_open(const char*, int, ...);
int __real_close(int);
ssize_t __real_pread(int, void*, size_t, off_t);
ssize_t __real_write(int, const void*, size_t);
int __real_rename(const char*, const char*);
int __real_unlink(const char*);
int __real_mkdir(const char*, mode_t);
int __real_lstat(const char*, struct stat*);
int __real_fstat(int, struct stat*);
int __real_fstatat(int, const char*, struct stat*, int);
int __real_statfs(const char*, struct statfs*);
int __real_utimensat(int, const char*, const timespec*, int);
int __real_fcntl(int, int, ...);
DIR* __real_opendir(const char*);
dirent* __real_readdir(DIR*);

int __wrap_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0);
  va_end(arguments);
  int opened = -1;
  const int fd = call_or_fail("open", -1, [&] { return opened = __real_open(path, flags, mode); });
  if (fd < 0 && opened >= 0) {
    const int error = errno;
    __real_close(opened);
    errno = error;
  }
  return fd;
}
// Like Linux: the descriptor is gone, whatever close returns.
int __wrap_close(int fd) {
  const int error = errno;
  const int done = __real_close(fd);
  return call_or_fail("close", -1, [&] { return errno = error, done; });
}
ssize_t __wrap_pread(int fd, void* to, size_t count, off_t offset) {
  return lssar::transfer("pread", count, [&](size_t n) { return __real_pread(fd, to, n, offset); });
}
ssize_t __wrap_write(int fd, const void* from, size_t count) {
  return lssar::transfer("write", count, [&](size_t n) { return __real_write(fd, from, n); });
}
int __wrap_fsync(int) {
  return call_or_fail("fsync", -1, [] { return 0; });
}
int __wrap_rename(const char* from, const char* to) {
  return call_or_fail("rename", -1, [&] { return __real_rename(from, to); });
}
int __wrap_unlink(const char* path) {
  return call_or_fail("unlink", -1, [&] { return __real_unlink(path); });
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return call_or_fail("mkdir", -1, [&] { return __real_mkdir(path, mode); });
}
int __wrap_lstat(const char* path, struct stat* info) {
  return call_or_fail("lstat", -1, [&] { return __real_lstat(path, info); });
}
int __wrap_fstat(int fd, struct stat* info) {
  return call_or_fail("fstat", -1, [&] { return __real_fstat(fd, info); });
}
int __wrap_fstatat(int fd, const char* path, struct stat* info, int flags) {
  return call_or_fail("fstatat", -1, [&] { return __real_fstatat(fd, path, info, flags); });
}
int __wrap_statfs(const char* path, struct statfs* info) {
  return call_or_fail("statfs", -1, [&] { return __real_statfs(path, info); });
}
int __wrap_utimensat(int fd, const char* path, const timespec* times, int flags) {
  return call_or_fail("utimensat", -1, [&] { return __real_utimensat(fd, path, times, flags); });
}
int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return call_or_fail("fcntl", -1, [&] { return __real_fcntl(fd, command, argument); });
}
DIR* __wrap_opendir(const char* path) {
  DIR* opened = nullptr;
  DIR* dir = call_or_fail<DIR*>("opendir", nullptr, [&] { return opened = __real_opendir(path); });
  if (dir == nullptr && opened != nullptr) {
    const int error = errno;
    ::closedir(opened);
    errno = error;
  }
  return dir;
}
dirent* __wrap_readdir(DIR* dir) {
  return call_or_fail<dirent*>("readdir", nullptr, [&] { return __real_readdir(dir); });
}

}  // extern "C"
// NOLINTEND
