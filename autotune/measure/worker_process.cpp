#include "autotune/measure/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/measure/worker_protocol.h"
#include "base/open_descriptor.h"

extern char** environ;

namespace lssar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxLineBytes = size_t{256} << 20;
constexpr size_t kMaxLastText = 2000;
constexpr double kEndTimeoutS = 2;    // for one whose input was closed
constexpr double kReapTimeoutS = 30;  // for one that was killed: a driver may still clean up

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// NOTE: their numbers are above 2. In a host that closed its standard files they would otherwise be
// overwritten by the standard files of the new process, and by what the host prints.
struct Ends {
  FileDescriptor ours, theirs;
};

// A pipe that this process reads.
Result<Ends> make_pipe() {
  const ClosedStandardFiles closed;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return out_of_memory(fmt::format("pipe: {}", strerror(errno)));
  return Ends{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// For what this process writes: a socket, because writing to one whose reader is gone raises no
// signal.
Result<Ends> make_socket() {
  const ClosedStandardFiles closed;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return out_of_memory(fmt::format("socketpair: {}", strerror(errno)));
  return Ends{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// The arguments of posix_spawn. Both are destroyed at the end of the scope.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

int spawn(const std::string& program, int input, int output, int errors, pid_t* pid) {
  SpawnPlan plan;
  posix_spawn_file_actions_adddup2(&plan.actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&plan.actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&plan.actions, errors, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, STDERR_FILENO + 1);
  // The worker does not inherit the signals that the host blocks or ignores.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = program;
  std::string parent = std::to_string(getpid());
  char* arguments[] = {name.data(), parent.data(), nullptr};
  return posix_spawn(pid, program.c_str(), &plan.actions, &plan.attributes, arguments, environ);
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", number);
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const std::string& program) {
  LSSAR_ASSIGN_OR_RETURN(Ends input, make_socket());
  LSSAR_ASSIGN_OR_RETURN(Ends output, make_pipe());
  LSSAR_ASSIGN_OR_RETURN(Ends errors, make_pipe());
  std::unique_ptr<WorkerProcess> process(new WorkerProcess);
  const int error =
      spawn(program, input.theirs.get(), output.theirs.get(), errors.theirs.get(), &process->pid_);
  if (error != 0) {
    const std::string why = fmt::format("{}: {}", program, strerror(error));
    return error == ENOMEM || error == EAGAIN ? out_of_memory(why) : missing(why);
  }
  process->input_ = std::move(input.ours);
  process->output_ = std::move(output.ours);
  process->errors_ = std::move(errors.ours);
  return process;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ < 0) return;
  input_.close();
  if (!reap(kEndTimeoutS)) kill();
}

Status WorkerProcess::send(const nlohmann::json& message) {
  const std::string line = worker::to_line(message);
  const Clock::time_point deadline = after(kSendTimeoutS);
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t count =
        ::send(input_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      has_ended_ = true;
      return io_error(fmt::format("tuning worker {}: {}", pid_, strerror(errno)));
    }
    if (Clock::now() > deadline) return io_error(fmt::format("tuning worker {} is stuck", pid_));
    pollfd wait = {input_.get(), POLLOUT, 0};
    (void)poll(&wait, 1, 100);
  }
  return {};
}

WorkerProcess::Outcome WorkerProcess::receive(double timeout_s, nlohmann::json* message) {
  const bool has_deadline = timeout_s > 0;
  const Clock::time_point deadline = after(std::max(timeout_s, 0.0));
  std::string line;
  while (!take_line(&line)) {
    if (has_ended_ || read_.size() > kMaxLineBytes) return Outcome::kDied;
    if (!wait_for_output(deadline, has_deadline)) return Outcome::kTimeout;
  }
  Result<nlohmann::json> parsed = worker::from_line(line);
  if (!parsed.ok()) {
    last_text_ += "\n" + line.substr(0, 200);
    return Outcome::kDied;
  }
  *message = std::move(*parsed);
  return Outcome::kMessage;
}

bool WorkerProcess::take_line(std::string* line) {
  const size_t end = read_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = read_.size();
    return false;
  }
  *line = read_.substr(0, end);
  read_.erase(0, end + 1);
  searched_ = 0;
  return true;
}

bool WorkerProcess::wait_for_output(Clock::time_point deadline, bool has_deadline) {
  // A closed file has number -1, which poll ignores.
  pollfd files[] = {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}};
  int timeout_ms = -1;
  if (has_deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    timeout_ms = static_cast<int>(std::min<int64_t>(left, 1 << 30));
  }
  if (poll(files, 2, timeout_ms) <= 0) return true;  // the caller checks the clock again
  if (files[1].revents != 0) read_errors();
  if (files[0].revents == 0) return true;
  char buffer[1 << 16];
  const ssize_t count = read(output_.get(), buffer, sizeof(buffer));
  if (count > 0) {
    read_.append(buffer, static_cast<size_t>(count));
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    has_ended_ = true;
  }
  return true;
}

void WorkerProcess::read_errors() {
  char buffer[4096];
  const ssize_t count = read(errors_.get(), buffer, sizeof(buffer));
  if (count > 0) {
    last_text_.append(buffer, static_cast<size_t>(count));
    if (last_text_.size() > kMaxLastText) last_text_.erase(0, last_text_.size() - kMaxLastText);
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    errors_.close();
  }
}

bool WorkerProcess::reap(double timeout_s) {
  const Clock::time_point deadline = after(timeout_s);
  constexpr std::chrono::milliseconds kLongestPause(50);
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, kLongestPause)) {
    if (is_reaped_) return true;
    int status = 0;
    const pid_t reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_ || (reaped < 0 && errno == ECHILD)) {
      is_reaped_ = true;
      // ECHILD: the host waits for every child, or ignores SIGCHLD.
      exit_status_ = reaped == pid_ ? status : -1;
      return true;
    }
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

void WorkerProcess::kill() {
  if (pid_ < 0) return;
  // Not after the process was waited for: its number may belong to another process then.
  if (!reap(0)) {
    was_killed_ = true;
    (void)::kill(-pid_, SIGKILL);
    (void)::kill(pid_, SIGKILL);
    (void)reap(kReapTimeoutS);
  }
  has_ended_ = true;
  input_.close();
}

std::string WorkerProcess::last_words() {
  // The pipe still has what it wrote before it ended.
  while (errors_.get() >= 0) {
    pollfd file = {errors_.get(), POLLIN, 0};
    if (poll(&file, 1, 0) <= 0) break;
    read_errors();
  }
  constexpr double kExitTimeoutS = 5;
  if (!reap(kExitTimeoutS)) kill();
  std::string text = "ended in a way that this process was not told";
  if (was_killed_) {
    text = "stopped";
  } else if (exit_status_ >= 0 && WIFSIGNALED(exit_status_)) {
    text = "killed by " + signal_name(WTERMSIG(exit_status_));
  } else if (exit_status_ >= 0 && WIFEXITED(exit_status_)) {
    text = fmt::format("exited with code {}", WEXITSTATUS(exit_status_));
  }
  while (!last_text_.empty() && last_text_.back() == '\n') last_text_.pop_back();
  return last_text_.empty() ? text : text + "; its last words: " + last_text_;
}

}  // namespace lssar
