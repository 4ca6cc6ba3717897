// A runner that makes times and verdicts up: for tests of the search. Records what it was asked.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "autotune/measure/candidate_runner.h"

namespace lssar {

class FakeRunner : public CandidateRunner {
 public:
  FakeRunner();

  const DeviceInfo& device_info() const override { return info_; }
  const Machine& machine() const override { return machine_; }
  Evidence evidence() const override { return evidence_; }
  Result<CompileReport> compile(const CandidateSpec& candidate) override;
  Result<CheckReport> check(const CandidateSpec& candidate, CheckDepth depth) override;
  Result<std::vector<TimeReport>> time(const std::vector<CandidateSpec>& candidates,
                                       const TimeRequest& request) override;

  // What a schedule takes, in ms; the first of a call may drift: see drift.
  std::function<double(const Schedule&)> ms_of;
  // Each may be empty: everything passes.
  std::function<CompileReport(const CandidateSpec&)> on_compile;
  std::function<CheckReport(const CandidateSpec&, CheckDepth)> on_check;
  std::function<TimeReport(const CandidateSpec&)> on_time;  // kOk: timed as usual

  double drift = 1;   // every later call of time() is slower by this factor
  double jitter = 0;  // relative, a fixed pattern over the samples
  double seconds_per_call = 0;
  double clock_s = 0;  // what now_s of a request may return
  Evidence evidence_ = Evidence::kMeasured;
  DeviceInfo info_;
  Machine machine_;

  int num_compiled = 0, num_checked = 0, num_full_checks = 0, num_time_calls = 0, num_samples = 0;
  std::map<std::string, int> compiles_of;  // by candidate's schedule

 private:
  std::mutex mutex_;
};

}  // namespace lssar
