// A failed write of the library is an error, never the end of the program it is in.
#pragma once

#include <csignal>

namespace lssar {

// While one lives, what this thread writes raises neither SIGXFSZ (a file beyond `ulimit -f`) nor
// SIGPIPE (a pipe that nobody reads): the write fails with EFBIG or EPIPE, and errno is kept. The
// kernel sends both to the thread that writes, so blocking them there suffices, and no handler of
// the program is touched. Other threads, and signals that were pending before, are left alone.
//
// Threads: lives and ends on one.
class WriteSignalGuard {
 public:
  WriteSignalGuard();
  ~WriteSignalGuard();
  WriteSignalGuard(const WriteSignalGuard&) = delete;
  WriteSignalGuard& operator=(const WriteSignalGuard&) = delete;

 private:
  sigset_t taken_;  // those that no one else had pending
  sigset_t before_;
};

}  // namespace lssar
