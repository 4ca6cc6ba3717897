// Whether a candidate computes what it should: numbers, memory, repeatability, and on a strict
// virtual device races and undefined values.
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
  Engine* first = nullptr;  // and of the plain kernels
  // The second run of every case: on a virtual device with another order of warps, and other
  // moments of asynchronous operations.
  Engine* second = nullptr;
  std::vector<Engine*> strict;  // with a seed each; empty where there is no strict mode
};

class CandidateChecker {
 public:
  CandidateChecker(const RunnerTask& task, const CheckEngines& engines)
      : task_(task), engines_(engines), truths_(*engines.first) {}

  // Called before every run of the candidate.
  void set_on_run(std::function<void()> on_run) { on_run_ = std::move(on_run); }

  // Compiles and makes the truths, so that a check() that follows mostly runs the candidate. What
  // is wrong with the candidate is for check() to say; an error is not its fault.
  Status prepare(const CandidateSpec& candidate, const KernelSource& source, CheckDepth depth);

  // The source is the candidate's own or what its schedule emits.
  Result<CheckReport> check(const CandidateSpec& candidate, const KernelSource& source,
                            CheckDepth depth);

 private:
  // A kernel to be checked and the cases for it: the candidate's, and for a problem with fixed
  // lengths its schedule with open ones, which can be given lengths around the tiles.
  struct Form {
    Problem problem;
    KernelSource source;
    std::vector<CheckCase> cases;
  };
  Result<std::vector<Form>> forms(const CandidateSpec& candidate, const KernelSource& source,
                                  CheckDepth depth) const;

  // Each gives false, with verdict and reason in `report`, where the candidate is out; an error is
  // not its fault.
  Result<bool> check_form(const Form& form, const Schedule& schedule, CheckReport* report);
  Result<bool> check_case(const Form& form, const Schedule& schedule, const CheckCase& one,
                          CheckReport* report);
  Result<std::optional<CheckCall>> run(Engine& engine, const Form& form, const Schedule& schedule,
                                       const CheckCase& one, const CheckTruth& truth,
                                       CheckReport* report);
  Result<bool> check_numbers(const Form& form, const CheckCase& one, const CheckTruth& truth,
                             const CheckCall& call, CheckReport* report);

  const RunnerTask task_;
  const CheckEngines engines_;
  TruthSource truths_;
  std::function<void()> on_run_;
};

// What an output's relative error may be: no more than docs/accuracy.md allows, and no more than
// twice the plain kernel's. Below half of what is allowed no error counts against a candidate:
// cheaper forms of softplus, which schedules may choose, make errors of that size.
double error_bound(double tolerance, double baseline_error);

}  // namespace lssar
