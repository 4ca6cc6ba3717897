#include "tests/autotune/fake_runner.h"

#include <cmath>

namespace lssar {

FakeRunner::FakeRunner() {
  info_.kind = "cuda";
  info_.name = "NVIDIA Test";
  info_.id = "0000:01:00";
  info_.target = *target_from_name("sm_90a");
  info_.num_sms = 132;
  machine_ = {"NVIDIA Test", "sm_90a", 132, "CUDA 13.0", "nvrtc 13.0.88"};
}

Result<CompileReport> FakeRunner::compile(const CandidateSpec& candidate) {
  const std::lock_guard lock(mutex_);
  ++num_compiled;
  ++compiles_of[to_string(candidate.schedule)];
  clock_s += seconds_per_call;
  CompileReport report;
  if (on_compile) report = on_compile(candidate);
  return report;
}

Result<CheckReport> FakeRunner::check(const CandidateSpec& candidate, CheckDepth depth) {
  ++num_checked;
  if (depth == CheckDepth::kFull) ++num_full_checks;
  clock_s += seconds_per_call;
  CheckReport report;
  if (on_check) report = on_check(candidate, depth);
  return report;
}

Result<std::vector<TimeReport>> FakeRunner::time(const std::vector<CandidateSpec>& candidates,
                                                 const TimeRequest& request) {
  const double slow = std::pow(drift, num_time_calls++);
  clock_s += seconds_per_call;
  std::vector<TimeReport> reports;
  for (const CandidateSpec& candidate : candidates) {
    TimeReport report;
    if (on_time) report = on_time(candidate);
    for (int r = 0; r < request.rounds && report.verdict == Verdict::kOk; ++r) {
      // -1, 0, 1, in an order that differs between candidates.
      const int wave = (num_samples++ * 7) % 3 - 1;
      report.samples_ms.push_back(ms_of(candidate.schedule) * slow * (1 + jitter * wave));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace lssar
