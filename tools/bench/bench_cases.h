// The problems that every benchmark measures, and helpers.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"

namespace lssar::bench {

// Causal bf16, p = 15, equal head dims: the usual problem of training and inference.
inline Problem standard_problem(Pass pass, int head_dim) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.head_dim = problem.head_dim_v = head_dim;
  return problem;
}

// "forward/d64".
inline std::string case_name(Pass pass, int head_dim) {
  return std::string(pass_name(pass)) + "/d" + std::to_string(head_dim);
}

// For benchmarks of microseconds: this gives ten thousand samples, which is enough.
constexpr double kMinSeconds = 0.1;

struct Case {
  Pass pass;
  int head_dim;
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int head_dim : {64, 128}) {
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      cases.push_back({pass, head_dim});
    }
  }
  return cases;
}

// Skips a benchmark whose machine lacks something or that failed. Returns true if so.
inline bool stopped(benchmark::State& state, const Status& status) {
  if (status.ok()) return false;
  const bool is_missing = status.code() == StatusCode::kMissing;
  const std::string text = status.to_string();  // its first line says it; the rest is detail
  state.SkipWithError(((is_missing ? "skipped: " : "") + text.substr(0, text.find('\n'))).c_str());
  return true;
}

}  // namespace lssar::bench
