#include "base/write_signals.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace lssar {

WriteSignalGuard::WriteSignalGuard() {
  sigset_t pending;
  sigpending(&pending);
  sigemptyset(&taken_);
  for (const int signal : {SIGXFSZ, SIGPIPE}) {
    if (sigismember(&pending, signal) == 0) sigaddset(&taken_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken_, &before_);
}

WriteSignalGuard::~WriteSignalGuard() {
  const int error = errno;
  const timespec at_once = {};
  for (;;) {
    if (sigtimedwait(&taken_, nullptr, &at_once) < 0 && errno != EINTR) break;
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace lssar
