// CandidateHost: compiles, checks and times candidates in this process.
//
// What open_candidate_host gives, and what a worker process is made of. Threads: as
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

// What compile workers need to know of a device that another process holds.
struct DeviceFacts {
  DeviceInfo info;
  ImageKind image = ImageKind::kPtx;  // what it is given
};

class CandidateHost final : public CandidateRunner {
 public:
  // Errors: those of open_device and open_compiler.
  static Result<std::unique_ptr<CandidateHost>> open(const RunnerTask& task);
  // Opens no device and only compiles, for the one described.
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

  // Called before every run of a candidate that is checked.
  void set_on_run(std::function<void()> on_run) {
    if (checker_ != nullptr) checker_->set_on_run(std::move(on_run));
  }
  // What check() would do before the candidate runs: compiles, and makes the truths.
  Status prepare_check(const CandidateSpec& candidate, CheckDepth depth);

  // As time(), but what happens is told as it happens; see CandidateTimer. The sources of
  // `candidates` are made here.
  Status time_observed(std::vector<TimedCandidate> candidates, const TimeRequest& request,
                       size_t chunk, TimeObserver& observer);

  // A candidate has left the device in a state that only another process gets out of.
  bool is_spent() const { return is_spent_; }

 private:
  explicit CandidateHost(const RunnerTask& task) : task_(task) {}
  Status set_up(std::shared_ptr<Device> device);
  void add_virtual_engines();
  Result<KernelSource> source_of(const CandidateSpec& candidate) const;
  Status check_usable() const;
  // Whether the device still works, after a candidate failed on it.
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
