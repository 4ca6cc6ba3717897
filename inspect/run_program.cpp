#include "inspect/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"

extern char** environ;

namespace lssar {
namespace {

struct Pipe {
  FileDescriptor read, write;
};

Result<Pipe> open_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return io_error(fmt::format("pipe: {}", strerror(errno)));
  return Pipe{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// Reads both pipes until both are closed.
void drain(int out, int err, ProgramResult* result) {
  std::array<pollfd, 2> ends = {{{out, POLLIN, 0}, {err, POLLIN, 0}}};
  std::string* const texts[] = {&result->out, &result->err};
  std::array<char, 65536> buffer;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends.data(), ends.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t count = read(ends[i].fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        ends[i].fd = -1;
      } else {
        texts[i]->append(buffer.data(), static_cast<size_t>(count));
      }
    }
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ProgramResult> run_program(const std::vector<std::string>& arguments) {
  LSSAR_ASSIGN_OR_RETURN(Pipe out, open_pipe());
  LSSAR_ASSIGN_OR_RETURN(Pipe err, open_pipe());
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  // Signals that this process blocks or ignores must not be blocked or ignored in the child.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return missing(fmt::format("'{}': {}", arguments[0], strerror(failure)));

  out.write = FileDescriptor();
  err.write = FileDescriptor();
  ProgramResult result;
  drain(out.read.get(), err.read.get(), &result);
  result.exit_code = wait_for(pid);
  return result;
}

Result<TemporaryFile> TemporaryFile::create(const std::string& name, const std::string& bytes) {
  std::string folder = temporary_folder() + "/lssar-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return io_error(fmt::format("no temporary folder '{}' (in TMPDIR, else /tmp): {}", folder,
                                strerror(errno)));
  }
  TemporaryFile file(TemporaryName(folder), folder + "/" + name);
  LSSAR_RETURN_IF_ERROR(write_file_atomically(file.path_, bytes));
  return file;
}

}  // namespace lssar
