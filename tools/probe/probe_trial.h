// A setting on its way from a schedule to figures. Internal to tools/probe. Threads: plain values.
#pragma once

#include <optional>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "autotune/model/cost_model.h"
#include "tools/probe/probe_list.h"

namespace lssar::probe {

struct Trial {
  const Setting* setting = nullptr;
  CandidateSpec spec;
  std::optional<CostEstimate> estimate;  // an edited source has none
  CompileReport compiled;
  CheckReport checked;
  TimeReport timed;
  std::vector<double> window_ms;  // of a long run: the median of each half second
};

// The first verdict that is not kOk, of compiling, checking and timing.
inline Verdict verdict_of(const Trial& trial) {
  if (trial.compiled.verdict != Verdict::kOk) return trial.compiled.verdict;
  if (trial.checked.verdict != Verdict::kOk) return trial.checked.verdict;
  return trial.timed.verdict;
}
inline const std::string& reason_of(const Trial& trial) {
  if (trial.compiled.verdict != Verdict::kOk) return trial.compiled.reason;
  if (trial.checked.verdict != Verdict::kOk) return trial.checked.reason;
  return trial.timed.reason;
}

// Whether two runs give the same bits: not if dq is summed by atomics.
inline bool is_repeatable(const Problem& problem, const Schedule& schedule) {
  return problem.pass != Pass::kBackward || schedule.dq_mode != DqMode::kAtomic;
}

}  // namespace lssar::probe
