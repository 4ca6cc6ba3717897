// WorkerRunner: a CandidateRunner that works in separate processes: one that holds the device, and
// any number that compile. open_worker_runner returns one.
//
// If a worker dies or takes too long, its candidate gets a verdict, and nothing else is lost: the
// next request gets a new worker. Threads: as CandidateRunner.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "autotune/measure/candidate_host.h"
#include "autotune/measure/worker_process.h"
#include "base/temporaries.h"

namespace lssar {

class WorkerRunner final : public CandidateRunner {
 public:
  // Errors: those of starting the worker and of opening its device and compiler.
  static Result<std::unique_ptr<WorkerRunner>> open(const RunnerTask& task, std::string program,
                                                    int num_compile_workers);
  ~WorkerRunner() override;

  const DeviceInfo& device_info() const override { return device_.info; }
  const Machine& machine() const override { return machine_; }
  Evidence evidence() const override {
    return device_.info.kind == "virtual" ? Evidence::kPredicted : Evidence::kMeasured;
  }

  Result<CompileReport> compile(const CandidateSpec& candidate) override;
  Result<CheckReport> check(const CandidateSpec& candidate, CheckDepth depth) override;
  Result<std::vector<TimeReport>> time(const std::vector<CandidateSpec>& candidates,
                                       const TimeRequest& request) override;

 private:
  using Worker = std::unique_ptr<WorkerProcess>;
  // How a request ended that did not complete.
  struct Failure {
    Verdict verdict = Verdict::kCrashed;
    std::string reason;
  };
  struct Answer {
    bool has_failed = false;
    Failure failure;
    nlohmann::json message;  // the message that ended the request
  };
  class Timing;

  WorkerRunner(const RunnerTask& task, std::string program)
      : task_(task), program_(std::move(program)) {}

  // Makes sure that a worker is ready: the existing one, or a new one.
  Status ensure(Worker* worker, bool has_device);
  Status greet(WorkerProcess& process, bool has_device);
  // Sends the request, and waits for "report" or "error". A worker that died before it took the
  // request is replaced once.
  Result<Answer> ask(Worker* worker, bool has_device, const nlohmann::json& request);
  // The next message; or what was learnt when the worker ended.
  Answer next_message(Worker* worker, double timeout_s, const std::string& doing);
  double limit_s(const std::string& phase) const;

  RunnerTask task_;
  const std::string program_;
  std::optional<TemporaryName> own_cache_;  // if the task names none
  DeviceFacts device_;
  Machine machine_;
  Worker runner_;

  std::mutex mutex_;  // guards idle_
  std::condition_variable freed_;
  std::vector<Worker> idle_;  // compile workers that are not in use; null: not started yet
};

// The worker program's path, see open_worker_runner.
Result<std::string> find_worker(const std::string& given);

}  // namespace lssar
