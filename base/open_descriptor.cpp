#include "base/open_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lssar {

// With O_PATH, reads and writes of the number fail as if it were closed.
ClosedStandardFiles::ClosedStandardFiles() {
  for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; ++standard) {
    if (::fcntl(standard, F_GETFD) >= 0) continue;
    const int fd = ::open("/", O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {  // another thread has just opened this one
      ::close(fd);
      continue;
    }
    taken_[num_taken_++] = fd;
  }
}

ClosedStandardFiles::~ClosedStandardFiles() {
  const int error = errno;
  for (int i = 0; i < num_taken_; ++i) {
    // The host may have put a file of its own under this number (dup2); then leave it alone.
    const int flags = ::fcntl(taken_[i], F_GETFL);
    if (flags >= 0 && (flags & O_PATH) != 0) ::close(taken_[i]);
  }
  errno = error;
}

FileDescriptor open_descriptor(const std::string& path, int flags, mode_t mode) {
  const ClosedStandardFiles closed;
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

int sync_descriptor(int fd) {
  int failed = 0;
  do failed = ::fsync(fd);
  while (failed != 0 && errno == EINTR);
  return failed;
}

}  // namespace lssar
