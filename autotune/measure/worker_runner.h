// WorkerRunner: a CandidateRunner whose work is done by processes of their own, one that holds the
// device and any number that compile. What open_worker_runner gives.
//
// A worker that dies or takes too long costs the candidate it was on its verdict, and nothing else:
// the next request gets a new worker. Threads: as CandidateRunner.
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
  // How a request came out that did not run to its end.
  struct Failure {
    Verdict verdict = Verdict::kCrashed;
    std::string reason;
  };
  struct Answer {
    bool has_failed = false;
    Failure failure;
    nlohmann::json message;  // what ended the request
  };
  class Timing;

  WorkerRunner(const RunnerTask& task, std::string program)
      : task_(task), program_(std::move(program)) {}

  // A worker that is ready: the one there is, or a new one.
  Status ensure(Worker* worker, bool has_device);
  Status greet(WorkerProcess& process, bool has_device);
  // Sends, and waits for "report" or "error". A worker that died before it took the request is
  // replaced once.
  Result<Answer> ask(Worker* worker, bool has_device, const nlohmann::json& request);
  // The next message, or the end of the worker.
  Answer next_message(Worker* worker, double timeout_s, const std::string& doing);
  double limit_s(const std::string& phase) const;

  RunnerTask task_;
  const std::string program_;
  std::optional<TemporaryName> own_cache_;  // where the task names none
  DeviceFacts device_;
  Machine machine_;
  Worker runner_;

  std::mutex mutex_;  // guards idle_
  std::condition_variable freed_;
  std::vector<Worker> idle_;  // compile workers nobody uses; null: not started yet
};

// The worker program's path, see open_worker_runner.
Result<std::string> find_worker(const std::string& given);

}  // namespace lssar
