#include "tools/lssar/terminal/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace lssar::command {

void prepare_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // It gets the lowest free number, which is this one. It is opened the wrong way round, so that
    // using it is an error.
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

Status finish_standard_output(int error) {
  errno = 0;
  const bool was_lost = std::ferror(stdout) != 0;
  const bool is_lost = std::fclose(stdout) != 0;  // a network disk may report it only here
  if (error == 0) error = errno;
  if (!was_lost && !is_lost) return {};
  return io_error(fmt::format("standard output: {}",
                              error != 0 ? std::strerror(error) : "it could not be written"));
}

}  // namespace lssar::command
