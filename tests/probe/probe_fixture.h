// What tests of probes share: a probe, and a runner that makes times up. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/autotune/fake_runner.h"
#include "tools/probe/probe_run.h"

namespace lssar::probe::test {

inline nlohmann::json dq_definition() {
  return nlohmann::json::parse(R"({"name": "dq", "question": "Which sum of dq is fastest?",
    "problem": {"pass": "backward", "head_dim": 64}, "batch": 1, "heads": 2, "length": 256,
    "rounds": 5, "settings": [{"name": "split", "schedule": {"dq_mode": "split"}},
      {"name": "atomic", "schedule": {"dq_mode": "atomic"}},
      {"name": "ordered", "schedule": {"dq_mode": "ordered"}}],
    "constants": [{"name": "ordered_clocks", "low": 0, "high": 8000,
                   "ratio": ["ordered", "split"]}]})");
}

inline double ms_of_mode(const Schedule& schedule) {
  return schedule.dq_mode == DqMode::kSplit ? 7.0 : schedule.dq_mode == DqMode::kAtomic ? 6.0 : 9.0;
}

// Records what it is asked, in a place that outlives it.
struct Asked {
  int num_runners = 0;
  std::vector<std::string> checks;    // "split repeatable"
  std::vector<std::string> launches;  // "cold 5: split atomic ordered"
};

class MadeUpRunner final : public FakeRunner {
 public:
  MadeUpRunner(const RunnerTask& task, Asked& asked) : asked_(asked), task_(task) {
    machine_.device = info_.name = "NVIDIA H200";
    ms_of = ms_of_mode;
    ++asked.num_runners;
  }

  Result<CheckReport> check(const CandidateSpec& candidate, CheckDepth depth) override {
    asked_.checks.push_back(candidate.id + " " + determinism_name(task_.determinism));
    return FakeRunner::check(candidate, depth);
  }
  Result<std::vector<TimeReport>> time(const std::vector<CandidateSpec>& candidates,
                                       const TimeRequest& request) override {
    std::string text = (request.cold_l2 ? "cold " : "warm ") + std::to_string(request.rounds) + ":";
    for (const CandidateSpec& candidate : candidates) text += " " + candidate.id;
    asked_.launches.push_back(text);
    return FakeRunner::time(candidates, request);
  }

 private:
  Asked& asked_;
  const RunnerTask task_;
};

}  // namespace lssar::probe::test
