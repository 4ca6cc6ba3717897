// WorkerProcess: a program behind pipes. It gets lines of JSON and answers with lines; it can be
// stopped at any moment; last_words() says why it died.
//
// It is spawned, not forked, so that nothing of this process (a CUDA context, say) is in it. It has
// a process group of its own, which is ended with it, and no file of this process except its pipes.
// Only this process is waited for, so that a host which handles or ignores SIGCHLD is not
// disturbed. Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/file.h"
#include "base/status.h"

namespace lssar {

class WorkerProcess {
 public:
  // kMissing: the program cannot be run. kOutOfMemory: no more processes or files are available.
  static Result<std::unique_ptr<WorkerProcess>> start(const std::string& program);
  // Asks it to end, and kills it if it does not.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // kIoError: it has died, or accepts nothing for `kSendTimeoutS`.
  Status send(const nlohmann::json& message);

  enum class Outcome { kMessage, kTimeout, kDied };
  // The next line. kDied: also for a line that is no JSON. timeout_s <= 0: no limit.
  Outcome receive(double timeout_s, nlohmann::json* message);

  // Kills it and what it started. May be called again.
  void kill();
  // How it ended: "killed by SIGSEGV", "exited with code 3", followed by the last lines of its
  // standard error. Call it after kDied or kill().
  std::string last_words();

  pid_t pid() const { return pid_; }

  static constexpr double kSendTimeoutS = 30;

 private:
  WorkerProcess() = default;
  // Waits until one of the pipes can be read or has hung up; reads both. False: the deadline
  // passed.
  bool wait_for_output(std::chrono::steady_clock::time_point deadline, bool has_deadline);
  void read_errors();
  bool take_line(std::string* line);
  // Gets its exit status. False: not known by `timeout_s`.
  bool reap(double timeout_s);

  pid_t pid_ = -1;
  FileDescriptor input_, output_, errors_;
  std::string read_;        // output that was not taken yet
  size_t searched_ = 0;     // this much of read_ has no line end
  std::string last_text_;   // the last of its standard error
  bool has_ended_ = false;  // output has ended
  bool is_reaped_ = false;
  bool was_killed_ = false;  // by kill()
  int exit_status_ = -1;     // as waitpid gives it; -1: another wait took it
};

}  // namespace lssar
