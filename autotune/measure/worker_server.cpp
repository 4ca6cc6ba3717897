#include "autotune/measure/worker_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "autotune/measure/candidate_host.h"
#include "autotune/measure/worker_protocol.h"

namespace lssar {
namespace {

using nlohmann::json;

constexpr int kExitDone = 0;
constexpr int kExitBadInput = 2;
constexpr int kExitLost = 4;  // the runner cannot be reached

// Lines from standard input. A thread reads beside the work. If the input ends or the parent is
// gone, the process ends at once, even if a candidate is in an endless loop.
class Requests {
 public:
  explicit Requests(pid_t parent) : parent_(parent) {
    std::thread([this] { read_all(); }).detach();
  }

  std::string next() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !lines_.empty(); });
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  void read_all() {
    constexpr int kParentCheckMs = 1000;
    std::string text;
    while (true) {
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      const int ready = poll(&input, 1, kParentCheckMs);
      // A process that the parent forked may hold the input open.
      if (getppid() != parent_) _exit(kExitDone);
      if (ready <= 0) continue;
      char buffer[1 << 16];
      const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) _exit(kExitDone);
      text.append(buffer, static_cast<size_t>(count));
      take_lines(&text);
    }
  }

  void take_lines(std::string* text) {
    size_t begin = 0;
    for (size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', begin)) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(text->substr(begin, end - begin));
      arrived_.notify_one();
      begin = end + 1;
    }
    text->erase(0, begin);
  }

  const pid_t parent_;
  std::mutex mutex_;  // guards lines_
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
};

// Sends answers. The process ends if nobody takes them.
class Answers {
 public:
  explicit Answers(int fd) : fd_(fd) {}
  void send(const json& message) const {
    const std::string line = worker::to_line(message);
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count = write(fd_, line.data() + sent, line.size() - sent);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EINTR) _exit(kExitLost);
    }
  }

 private:
  const int fd_;
};

class SendingObserver final : public TimeObserver {
 public:
  explicit SendingObserver(const Answers& answers) : answers_(answers) {}
  void on_prepare(const std::vector<size_t>& candidates) override {
    answers_.send({{"on", candidates}, {"phase", "prepare"}});
  }
  void on_run(const std::vector<size_t>& candidates) override {
    answers_.send({{"on", candidates}, {"phase", "run"}});
  }
  void on_sample(size_t candidate, double ms) override {
    answers_.send({{"sample", json::array({candidate, ms})}});
  }
  void on_failed(size_t candidate, Verdict verdict, const std::string& reason) override {
    answers_.send({{"failed", json::array({candidate, verdict_name(verdict), reason})}});
  }

 private:
  const Answers& answers_;
};

class Server {
 public:
  Server(pid_t parent, int output) : requests_(parent), answers_(output) {}

  int run() {
    answers_.send(worker::hello());
    const Status opened = open(requests_.next());
    if (!opened.ok()) {
      answers_.send({{"error", worker::encode(opened)}});
      return kExitBadInput;
    }
    answers_.send({{"ready",
                    {{"device", worker::encode(host_->device())},
                     {"machine", to_json(host_->machine())}}}});
    while (!host_->is_spent()) {
      const Status status = answer(requests_.next());
      if (status.ok()) continue;
      answers_.send({{"error", worker::encode(status)}, {"spent", host_->is_spent()}});
    }
    return kExitDone;
  }

 private:
  Status open(const std::string& line) {
    LSSAR_ASSIGN_OR_RETURN(const json request, worker::from_line(line));
    LSSAR_ASSIGN_OR_RETURN(const RunnerTask task,
                           worker::decode_task(request.value("task", json())));
    if (!request.contains("device")) {
      LSSAR_ASSIGN_OR_RETURN(host_, CandidateHost::open(task));
      return {};
    }
    LSSAR_ASSIGN_OR_RETURN(const DeviceFacts device, worker::decode_device(request["device"]));
    LSSAR_ASSIGN_OR_RETURN(host_, CandidateHost::open_for(task, device));
    return {};
  }

  void begin(const char* phase) const {
    answers_.send({{"on", json::array({0})}, {"phase", phase}});
  }

  // Returns an error, which the caller sends; sends everything else itself.
  Status answer(const std::string& line) {
    LSSAR_ASSIGN_OR_RETURN(const json request, worker::from_line(line));
    if (request.contains("compile")) return compile(request);
    if (request.contains("check")) return check(request);
    if (request.contains("time")) return time(request);
    return internal_error("tuning worker: a request that is none: " + line.substr(0, 200));
  }

  Status compile(const json& request) {
    LSSAR_ASSIGN_OR_RETURN(const CandidateSpec candidate,
                           worker::decode_candidate(request["compile"]));
    begin("prepare");
    LSSAR_ASSIGN_OR_RETURN(const CompileReport report, host_->compile(candidate));
    answers_.send({{"report", worker::encode(report)}});
    return {};
  }

  Status check(const json& request) {
    LSSAR_ASSIGN_OR_RETURN(const CandidateSpec candidate,
                           worker::decode_candidate(request["check"]));
    const CheckDepth depth = request.value("full", false) ? CheckDepth::kFull : CheckDepth::kQuick;
    begin("prepare");
    LSSAR_RETURN_IF_ERROR(host_->prepare_check(candidate, depth));
    host_->set_on_run([this] { begin("run"); });
    LSSAR_ASSIGN_OR_RETURN(const CheckReport report, host_->check(candidate, depth));
    answers_.send({{"report", worker::encode(report)}, {"spent", host_->is_spent()}});
    return {};
  }

  Status time(const json& request) {
    LSSAR_ASSIGN_OR_RETURN(const TimeRequest how,
                           worker::decode_time_request(request.value("request", json())));
    std::vector<TimedCandidate> candidates;
    for (const json& one : request["time"]) {
      TimedCandidate timed;
      LSSAR_ASSIGN_OR_RETURN(timed.spec, worker::decode_candidate(one.value("candidate", json())));
      timed.rounds_done = one.value("rounds_done", 0);
      candidates.push_back(std::move(timed));
    }
    SendingObserver observer(answers_);
    LSSAR_RETURN_IF_ERROR(host_->time_observed(std::move(candidates), how,
                                               request.value("chunk", size_t{1}), observer));
    answers_.send({{"done", true}});
    return {};
  }

  Requests requests_;
  const Answers answers_;
  std::unique_ptr<CandidateHost> host_;
};

}  // namespace

int serve_worker(long parent) {
  signal(SIGPIPE, SIG_IGN);
  const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return kExitLost;
  Server server(static_cast<pid_t>(parent), output);
  // The reading thread uses the server to the end, so no destructor runs after this.
  int code = kExitBadInput;
  try {
    code = server.run();
  } catch (const std::exception& error) {
    // A message of the right shape with wrong types: the runner has another version.
    (void)!write(STDERR_FILENO, error.what(), std::string(error.what()).size());
  }
  _exit(code);
}

}  // namespace lssar
