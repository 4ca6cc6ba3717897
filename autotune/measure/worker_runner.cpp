#include "autotune/measure/worker_runner.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "autotune/measure/worker_protocol.h"
#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/temporaries.h"
#include "cache/store.h"

namespace lssar {
namespace {

using nlohmann::json;

constexpr const char* kProgram = "lssar-tune-worker";
constexpr double kGreetTimeoutS = 30;  // until a new process says what it is
constexpr double kOpenTimeoutS = 120;  // to load a driver and a compiler, perhaps over a network
constexpr int kMaxUnexplained = 3;     // ends of a worker while no candidate was on

// A folder of this runner's own. Workers share what they compile through a cache on disk.
Result<std::string> make_cache() {
  std::string name = temporary_folder() + "/lssar_tune_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return io_error(fmt::format("no folder for compiled kernels '{}' (in TMPDIR, else /tmp): {}",
                                name, std::strerror(errno)));
  }
  return name;
}

}  // namespace

Result<std::string> find_worker(const std::string& given) {
  std::vector<std::string> tried;
  const char* wanted = std::getenv("LSSAR_TUNE_WORKER");
  if (!given.empty()) {
    tried = {given};
  } else if (wanted != nullptr && *wanted != '\0') {
    tried = {wanted};
  } else {
    const std::string here = directory_of_code(reinterpret_cast<const void*>(&find_worker));
    // The last one is for a library in lib/x86_64-linux-gnu.
    for (const char* place : {"/", "/../libexec/lssar/", "/../bin/", "/../../libexec/lssar/"})
      tried.push_back(here + place + kProgram);
  }
  for (const std::string& path : tried) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return missing(fmt::format("{}: tried {}; LSSAR_TUNE_WORKER names another place", kProgram,
                             fmt::join(tried, ", ")));
}

Result<std::unique_ptr<WorkerRunner>> WorkerRunner::open(const RunnerTask& task,
                                                         std::string program,
                                                         int num_compile_workers) {
  LSSAR_RETURN_IF_ERROR(validate(task.problem));
  std::unique_ptr<WorkerRunner> runner(new WorkerRunner(task, std::move(program)));
  CacheOptions cache;
  cache.directory = task.cache_directory;
  if (Store::open(cache)->directory().empty()) {
    LSSAR_ASSIGN_OR_RETURN(runner->task_.cache_directory, make_cache());
    runner->own_cache_.emplace(runner->task_.cache_directory);
  }
  runner->idle_.resize(static_cast<size_t>(std::max(num_compile_workers, 1)));
  LSSAR_RETURN_IF_ERROR(runner->ensure(&runner->runner_, true));
  return runner;
}

WorkerRunner::~WorkerRunner() {
  runner_.reset();
  idle_.clear();
}

Status WorkerRunner::ensure(Worker* worker, bool has_device) {
  if (*worker != nullptr) return {};
  LSSAR_ASSIGN_OR_RETURN(Worker started, WorkerProcess::start(program_));
  LSSAR_RETURN_IF_ERROR(greet(*started, has_device).with_context(program_));
  *worker = std::move(started);
  return {};
}

Status WorkerRunner::greet(WorkerProcess& process, bool has_device) {
  const auto receive = [&](double timeout_s, json* message) -> Status {
    switch (process.receive(timeout_s, message)) {
      case WorkerProcess::Outcome::kMessage:
        return {};
      case WorkerProcess::Outcome::kTimeout:
        process.kill();
        return device_error(fmt::format("a tuning worker said nothing for {} s", timeout_s));
      case WorkerProcess::Outcome::kDied:
        break;
    }
    return device_error("a tuning worker was not ready when it ended: " + process.last_words());
  };
  json message;
  LSSAR_RETURN_IF_ERROR(receive(kGreetTimeoutS, &message));
  LSSAR_RETURN_IF_ERROR(worker::check_hello(message));
  json request = {{"task", worker::encode(task_)}};
  if (!has_device) request["device"] = worker::encode(device_);
  LSSAR_RETURN_IF_ERROR(process.send(request));
  LSSAR_RETURN_IF_ERROR(receive(kOpenTimeoutS, &message));
  if (message.contains("error")) return worker::decode_status(message["error"]);
  if (!has_device) return {};
  const json ready = message.value("ready", json::object());
  LSSAR_ASSIGN_OR_RETURN(device_, worker::decode_device(ready.value("device", json())));
  LSSAR_ASSIGN_OR_RETURN(machine_, worker::decode_machine(ready.value("machine", json())));
  return {};
}

double WorkerRunner::limit_s(const std::string& phase) const {
  return phase == "run" ? task_.run_timeout_s : task_.compile_timeout_s;
}

WorkerRunner::Answer WorkerRunner::next_message(Worker* worker, double timeout_s,
                                                const std::string& doing) {
  Answer answer;
  switch ((*worker)->receive(timeout_s, &answer.message)) {
    case WorkerProcess::Outcome::kMessage:
      if (answer.message.value("spent", false)) worker->reset();
      return answer;
    case WorkerProcess::Outcome::kTimeout:
      (*worker)->kill();
      answer.failure = {Verdict::kTimeout,
                        fmt::format("{}: no end after {:g} s", doing, timeout_s)};
      break;
    case WorkerProcess::Outcome::kDied:
      answer.failure = {Verdict::kCrashed,
                        fmt::format("{}: its process was {}", doing, (*worker)->last_words())};
      break;
  }
  log(LogLevel::kInfo,
      fmt::format("tuning worker {}: {}", (*worker)->pid(), answer.failure.reason));
  answer.has_failed = true;
  worker->reset();
  return answer;
}

Result<WorkerRunner::Answer> WorkerRunner::ask(Worker* worker, bool has_device,
                                               const json& request) {
  Answer answer;
  for (int attempt = 0; attempt < 2; ++attempt) {
    LSSAR_RETURN_IF_ERROR(ensure(worker, has_device));
    if (!(*worker)->send(request).ok()) {
      worker->reset();
      continue;
    }
    std::string phase;  // "": the request was not taken yet
    while (true) {
      answer = next_message(worker, limit_s(phase), phase == "run" ? "running" : "preparing");
      if (answer.has_failed && phase.empty()) break;
      if (answer.has_failed || !answer.message.contains("on")) return answer;
      phase = answer.message.value("phase", "prepare");
    }
  }
  return device_error(fmt::format("{}: a worker ended before it took a request, twice{}{}",
                                  program_, answer.has_failed ? ": " : "", answer.failure.reason));
}

Result<CompileReport> WorkerRunner::compile(const CandidateSpec& candidate) {
  Worker worker;
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return !idle_.empty(); });
    worker = std::move(idle_.back());
    idle_.pop_back();
  }
  const Result<Answer> answer = ask(&worker, false, {{"compile", worker::encode(candidate)}});
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }
  freed_.notify_one();
  LSSAR_RETURN_IF_ERROR(answer.status());
  if (answer->has_failed) {
    CompileReport report;
    report.verdict = answer->failure.verdict;
    report.reason = "compiling, " + answer->failure.reason;
    return report;
  }
  if (answer->message.contains("error")) return worker::decode_status(answer->message["error"]);
  return worker::decode_compile_report(answer->message.value("report", json()));
}

Result<CheckReport> WorkerRunner::check(const CandidateSpec& candidate, CheckDepth depth) {
  LSSAR_ASSIGN_OR_RETURN(const Answer answer, ask(&runner_, true,
                                                  {{"check", worker::encode(candidate)},
                                                   {"full", depth == CheckDepth::kFull}}));
  if (answer.has_failed) {
    CheckReport report;
    report.verdict = answer.failure.verdict;
    report.reason = answer.failure.reason;
    return report;
  }
  if (answer.message.contains("error")) return worker::decode_status(answer.message["error"]);
  return worker::decode_check_report(answer.message.value("report", json()));
}

// One timing, which may need several workers one after the other.
class WorkerRunner::Timing {
 public:
  Timing(WorkerRunner& runner, const std::vector<CandidateSpec>& candidates,
         const TimeRequest& request)
      : runner_(runner), candidates_(candidates), request_(request), reports_(candidates.size()) {}

  Result<std::vector<TimeReport>> run() {
    while (true) {
      list_open();
      if (places_.empty()) return std::move(reports_);
      LSSAR_RETURN_IF_ERROR(run_once());
    }
  }

 private:
  // Lists the candidates that are neither out nor done, for the next request.
  void list_open() {
    places_.clear();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const bool is_done = static_cast<int>(reports_[i].samples_ms.size()) >= request_.rounds;
      if (reports_[i].verdict == Verdict::kOk && !is_done) places_.push_back(i);
    }
  }

  Status run_once() {
    LSSAR_RETURN_IF_ERROR(runner_.ensure(&runner_.runner_, true));
    json list = json::array();
    for (const size_t i : places_) {
      list.push_back({{"candidate", worker::encode(candidates_[i])},
                      {"rounds_done", reports_[i].samples_ms.size()}});
    }
    on_.clear();
    phase_ = "prepare";
    const Status sent = runner_.runner_->send(
        {{"time", list}, {"request", worker::encode(request_)}, {"chunk", chunk_}});
    if (!sent.ok()) {
      runner_.runner_.reset();
      return note_unexplained(sent.message());
    }
    while (true) {
      const double limit_s =
          runner_.limit_s(phase_) * static_cast<double>(std::max<size_t>(on_.size(), 1));
      const Answer answer = runner_.next_message(
          &runner_.runner_, limit_s, phase_ == "run" ? "being timed" : "preparing to be timed");
      if (answer.has_failed) return blame(answer.failure);
      if (answer.message.contains("done")) return check_done();
      if (answer.message.contains("error")) {
        const Status error = worker::decode_status(answer.message["error"]);
        if (!answer.message.value("spent", false)) return error;
        return blame({Verdict::kDeviceError, error.message()});
      }
      LSSAR_RETURN_IF_ERROR(take(answer.message));
    }
  }

  Status check_done() const {
    for (const size_t i : places_) {
      const bool is_done = static_cast<int>(reports_[i].samples_ms.size()) == request_.rounds;
      if (reports_[i].verdict == Verdict::kOk && !is_done)
        return internal_error("tuning worker: a timing without all of its samples");
    }
    return {};
  }

  // The worker ended or was killed. If several candidates were running, each runs alone from now
  // on.
  Status blame(const Failure& failure) {
    std::erase_if(on_, [&](size_t i) { return reports_[i].verdict != Verdict::kOk; });
    const bool is_told = on_.empty() && has_failed_;
    has_failed_ = false;
    if (is_told) return {};
    if (on_.empty() || (on_.size() > 1 && chunk_ == 1)) return note_unexplained(failure.reason);
    if (on_.size() > 1) {
      chunk_ = 1;
      return {};
    }
    rule_out(on_[0], failure.verdict, failure.reason);
    return {};
  }

  Status note_unexplained(const std::string& reason) {
    if (++unexplained_ < kMaxUnexplained) return {};
    return device_error(fmt::format("tuning workers end without a candidate to blame: {}", reason));
  }

  void rule_out(size_t place, Verdict verdict, const std::string& reason) {
    reports_[place].verdict = verdict;
    reports_[place].reason = reason;
    reports_[place].samples_ms.clear();
  }

  // Takes a message about candidates, which are named by their places in the request.
  Status take(const json& message) {
    try {
      if (message.contains("on")) {
        on_.clear();
        for (const json& place : message.at("on")) on_.push_back(places_.at(place.get<size_t>()));
        phase_ = message.at("phase").get<std::string>();
      } else if (message.contains("sample")) {
        const json& sample = message.at("sample");
        reports_[places_.at(sample.at(0).get<size_t>())].samples_ms.push_back(
            sample.at(1).get<double>());
      } else {
        const json& failed = message.at("failed");
        LSSAR_ASSIGN_OR_RETURN(const Verdict verdict,
                               parse_verdict(failed.at(1).get<std::string>()));
        rule_out(places_.at(failed.at(0).get<size_t>()), verdict, failed.at(2).get<std::string>());
        has_failed_ = true;
      }
    } catch (const std::exception&) {  // from the JSON library, or for a wrong place
      return internal_error("tuning worker: a message is not what this version sends");
    }
    return {};
  }

  WorkerRunner& runner_;
  const std::vector<CandidateSpec>& candidates_;
  const TimeRequest request_;
  std::vector<TimeReport> reports_;
  std::vector<size_t> places_;  // of the candidates of the request, in order
  std::vector<size_t> on_;      // places of the candidates that run now
  std::string phase_;
  bool has_failed_ = false;  // a failure was reported since a worker last ended
  size_t chunk_ = kSamplesPerQueue;
  int unexplained_ = 0;
};

Result<std::vector<TimeReport>> WorkerRunner::time(const std::vector<CandidateSpec>& candidates,
                                                   const TimeRequest& request) {
  return Timing(*this, candidates, request).run();
}

Result<std::unique_ptr<CandidateRunner>> open_worker_runner(const RunnerTask& task,
                                                            int num_compile_workers,
                                                            const std::string& worker) {
  LSSAR_ASSIGN_OR_RETURN(std::string program, find_worker(worker));
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<WorkerRunner> runner,
                         WorkerRunner::open(task, std::move(program), num_compile_workers));
  return std::unique_ptr<CandidateRunner>(std::move(runner));
}

}  // namespace lssar
