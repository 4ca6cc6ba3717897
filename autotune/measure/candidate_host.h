// CandidateHost: compiles, checks and times candidates in this process.
//
// open_candidate_host returns one, and a worker process is made of one. Threads: as
// CandidateRunner.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autotune/measure/candidate_check.h"
#include "autotune/measure/candidate_runner.h"
#include "autotune/measure/candidate_timer.h"
#include "runtime/engine.h"

namespace lssar {

// What compile workers need to know of a device that another process opened.
struct DeviceFacts {
  DeviceInfo info;
  ImageKind image = ImageKind::kPtx;  // the kind of image that it takes
};

class CandidateHost final : public CandidateRunner {
 public:
  // Errors: those of open_device and open_compiler.
  static Result<std::unique_ptr<CandidateHost>> open(const RunnerTask& task);
  // Opens no device. Compiles only, for the device described.
  static Result<std::unique_ptr<CandidateHost>> open_for(const RunnerTask& task,
                                                         const DeviceFacts& device);

  const DeviceInfo& device_info() const override { return facts_.info; }
  const Machine& machine() const override { return machine_; }
  Evidence evidence() const override {
    return facts_.info.kind == "virtual" ? Evidence::kPredicted : Evidence::kMeasured;
  }
  const DeviceFacts& device() const { return facts_; }

  Result<CompileReport> compile(const CandidateSpec& candidate) override;
  Result<CheckReport> check(const CandidateSpec& candidate, CheckDepth depth) override;
  Result<std::vector<TimeReport>> time(const std::vector<CandidateSpec>& candidates,
                                       const TimeRequest& request) override;

  // Called before every run of a candidate's check.
  void set_on_run(std::function<void()> on_run) {
    if (checker_ != nullptr) checker_->set_on_run(std::move(on_run));
  }
  // The part of check() before the candidate runs: compiles, and makes the truths.
  Status prepare_check(const CandidateSpec& candidate, CheckDepth depth);

  // As time(), but the observer is told what happens when it happens; see CandidateTimer. Makes the
  // sources of `candidates`.
  Status time_observed(std::vector<TimedCandidate> candidates, const TimeRequest& request,
                       size_t chunk, TimeObserver& observer);

  // A candidate has left the device in a state that only a new process ends.
  bool is_spent() const { return is_spent_; }

 private:
  explicit CandidateHost(const RunnerTask& task);
  Status set_up(std::shared_ptr<Device> device);
  void add_virtual_engines();
  Result<KernelSource> source_of(const CandidateSpec& candidate) const;
  // A check of fixed lengths also runs the candidate's kernel for any length. Compile workers put
  // it into the cache, because the one process with the device would compile one after the other.
  // An error here is left to the check, which reports it.
  void compile_open_form(const CandidateSpec& candidate);
  Status check_usable() const;
  // Tests whether the device still works after a candidate failed on it.
  void note_failure();
  Status count_all(const std::vector<TimedCandidate>& candidates, const TimeRequest& request,
                   TimeObserver& observer);

  const RunnerTask task_;
  DeviceFacts facts_;
  Machine machine_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> second_;               // virtual: another seed
  std::vector<std::unique_ptr<Engine>> strict_;  // virtual
  std::unique_ptr<CandidateChecker> checker_;
  bool is_spent_ = false;
};

}  // namespace lssar
