// WorkerProcess: a program behind pipes that is sent lines of JSON and answers with lines, can be
// stopped at any moment, and tells why it died.
//
// It is spawned, not forked, so that nothing of this process (a CUDA context, say) is in it; in a
// process group of its own, which is ended with it; it gets no file of this process but its pipes.
// Only its own process is waited for: a host with a SIGCHLD handler of its own, or one that ignores
// the signal, is not disturbed. Threads: one at a time.
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
  // kMissing where the program cannot be run, kOutOfMemory where there are no more processes or
  // files to be had.
  static Result<std::unique_ptr<WorkerProcess>> start(const std::string& program);
  // Asks it to end, and ends it where it does not.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // kIoError where it has died or takes nothing for `kSendTimeoutS`.
  Status send(const nlohmann::json& message);

  enum class Outcome { kMessage, kTimeout, kDied };
  // The next line. kDied also where a line is no JSON. No time limit where timeout_s <= 0.
  Outcome receive(double timeout_s, nlohmann::json* message);

  // Ends it and what it started. May be called again.
  void kill();
  // How it ended: "killed by SIGSEGV", "exited with code 3", with the last lines it wrote to
  // standard error. After kDied or kill().
  std::string last_words();

  pid_t pid() const { return pid_; }

  static constexpr double kSendTimeoutS = 30;

 private:
  WorkerProcess() = default;
  // Whether a file became readable or hung up by then; reads both. False: the time is over.
  bool wait_for_output(std::chrono::steady_clock::time_point deadline, bool has_deadline);
  void read_errors();
  bool take_line(std::string* line);
  // Its exit status; whether it is known by `timeout_s`.
  bool reap(double timeout_s);

  pid_t pid_ = -1;
  FileDescriptor input_, output_, errors_;
  std::string read_;        // of output, not yet taken
  size_t searched_ = 0;     // of read_, without a line's end
  std::string last_text_;   // the end of errors
  bool has_ended_ = false;  // output is at its end
  bool is_reaped_ = false;
  bool was_killed_ = false;  // by kill()
  int exit_status_ = -1;     // as waitpid gives it; -1: somebody else took it
};

}  // namespace lssar
