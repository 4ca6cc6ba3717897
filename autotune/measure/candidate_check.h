// Checks whether a candidate computes what it should: numbers, memory, repeatability, and on a
// strict virtual device races and undefined values.
//
// Used by CandidateHost. Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "autotune/measure/check_call.h"
#include "autotune/measure/check_cases.h"
#include "autotune/measure/check_truth.h"
#include "runtime/engine.h"

namespace lssar {

// The engines a candidate runs on, for one target.
struct CheckEngines {
  Engine* first = nullptr;  // also runs the plain kernels
  // Runs every case a second time. On a virtual device it has another order of warps, and
  // asynchronous operations take effect at other moments.
  Engine* second = nullptr;
  std::vector<Engine*> strict;  // one per seed; empty if the device has no strict mode
};

class CandidateChecker {
 public:
  CandidateChecker(const RunnerTask& task, const CheckEngines& engines)
      : task_(task), engines_(engines), truths_(*engines.first) {}

  // Called before every run of the candidate.
  void set_on_run(std::function<void()> on_run) { on_run_ = std::move(on_run); }

  // Compiles and makes the truths, so that a following check() spends its time on running the
  // candidate. What is wrong with the candidate is left for check() to report; an error is not the
  // candidate's fault.
  Status prepare(const CandidateSpec& candidate, const KernelSource& source, CheckDepth depth);

  // `source` is the candidate's own, or what its schedule emits.
  Result<CheckReport> check(const CandidateSpec& candidate, const KernelSource& source,
                            CheckDepth depth);

 private:
  // A kernel to be checked, and its cases. The first form is the candidate's. A problem with fixed
  // lengths has a second one: the same schedule with open lengths, which can be run at lengths
  // around the tiles.
  struct Form {
    Problem problem;
    KernelSource source;
    std::vector<CheckCase> cases;
  };
  Result<std::vector<Form>> forms(const CandidateSpec& candidate, const KernelSource& source,
                                  CheckDepth depth) const;

  // Each returns false, with verdict and reason in `report`, if the candidate failed. An error is
  // not its fault.
  Result<bool> check_form(const Form& form, const Schedule& schedule, CheckReport* report);
  Result<bool> check_case(const Form& form, const Schedule& schedule, const CheckCase& one,
                          CheckReport* report);
  Result<std::optional<CheckCall>> run(Engine& engine, const Form& form, const Schedule& schedule,
                                       const CheckCase& one, const CheckTruth& truth,
                                       CheckReport* report);
  // With problem.invariant: the bits are those of the default schedule.
  bool check_bits(const CheckTruth& truth, const CheckCall& call, CheckReport* report);
  Result<bool> check_numbers(const Form& form, const CheckCase& one, const CheckTruth& truth,
                             const CheckCall& call, CheckReport* report);

  const RunnerTask task_;
  const CheckEngines engines_;
  TruthSource truths_;
  std::function<void()> on_run_;
};

// The relative error that an output may have: at most what docs/accuracy.md allows, and at most
// twice the plain kernel's. An error below half of what is allowed never counts against a
// candidate, because the cheaper forms of softplus, which schedules may choose, make errors of that
// size.
double error_bound(double tolerance, double baseline_error);

}  // namespace lssar
