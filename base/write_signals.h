// A failed write of the library must be an error, and never end the host program.
#pragma once

#include <csignal>

namespace lssar {

// While one of these lives, writes of this thread raise neither SIGXFSZ (a file beyond `ulimit -f`)
// nor SIGPIPE (a pipe without a reader). Such a write fails with EFBIG or EPIPE, and errno is kept.
// The kernel sends both signals to the writing thread, so blocking them there is enough, and the
// program's handlers stay as they are. Other threads and signals that were pending before are left
// alone.
//
// Threads: created and destroyed on one thread.
class WriteSignalGuard {
 public:
  WriteSignalGuard();
  ~WriteSignalGuard();
  WriteSignalGuard(const WriteSignalGuard&) = delete;
  WriteSignalGuard& operator=(const WriteSignalGuard&) = delete;

 private:
  sigset_t taken_;  // those that were not pending before
  sigset_t before_;
};

}  // namespace lssar
