#include "autotune/measure/candidate_check.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "autotune/measure/fault_verdict.h"
#include "autotune/measure/packed_reference.h"
#include "codegen/pass_needs.h"
#include "reference/error_rule.h"

namespace lssar {
namespace {

// A virtual device interprets its kernels. A check on it has at most this many pairs of one head.
constexpr double kMaxVirtualPairs = double{1 << 22};

bool rule_out(Verdict verdict, std::string reason, CheckReport* report) {
  report->verdict = verdict;
  report->reason = std::move(reason);
  return false;
}

std::string position(size_t index, int64_t heads, int64_t length, int64_t dim) {
  const auto at = static_cast<int64_t>(index);
  return fmt::format("[{}, {}, {}, {}]", at / (dim * length * heads), at / (dim * length) % heads,
                     at / dim % length, at % dim);
}

// One output, and what it should be.
struct Output {
  std::string name;
  OutputTensor tensor;
  std::vector<float> values;
};

std::vector<float> sum_of(std::vector<float> a, const std::vector<float>& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus<>());
  return a;
}

// Keeps one case of each size and data.
void drop_repeated(std::vector<CheckCase>* cases) {
  std::vector<CheckCase> kept;
  for (const CheckCase& one : *cases) {
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const CheckCase& other) {
      return other.to_string() == one.to_string();
    });
    if (!known) kept.push_back(one);
  }
  *cases = std::move(kept);
}

}  // namespace

double error_bound(double tolerance, double baseline_error) {
  return std::min(tolerance, std::max(2 * baseline_error, tolerance / 2));
}

Result<std::vector<CandidateChecker::Form>> CandidateChecker::forms(const CandidateSpec& candidate,
                                                                    const KernelSource& source,
                                                                    CheckDepth depth) const {
  const auto cases_of = [&](const Problem& problem, const KernelSource& emitted) {
    return check_cases(problem, task_.sizes, candidate.schedule, emitted, depth);
  };
  std::vector<Form> forms;
  // With varlen the lengths that a problem states bound those of calls, and the kernels are the
  // same without them. Cases may be longer.
  const Problem problem =
      task_.problem.varlen ? with_open_lengths(task_.problem, candidate.schedule) : task_.problem;
  Form own{problem, source, cases_of(problem, source)};
  const bool is_virtual = engines_.first->device().info().kind == "virtual";
  if (!has_fixed_length(task_.problem)) return std::vector<Form>{std::move(own)};

  drop_repeated(&own.cases);
  const double pairs = pairs_of_call(own.cases[0].sizes, {});
  const bool is_large = pairs > kMaxReferencePairs;
  if (is_large) own.cases.resize(1);  // compared with the plain kernel, on Gaussian data
  const bool is_too_large = is_virtual && pairs > kMaxVirtualPairs;
  if (!is_too_large || candidate.source) forms.push_back(std::move(own));
  if (candidate.source) return forms;

  Form open;
  open.problem = with_open_lengths(task_.problem, candidate.schedule);
  LSSAR_ASSIGN_OR_RETURN(open.source, emit_kernel(open.problem, candidate.schedule,
                                                  engines_.first->device().info().target));
  open.cases = cases_of(open.problem, open.source);
  forms.push_back(std::move(open));
  return forms;
}

Status CandidateChecker::prepare(const CandidateSpec& candidate, const KernelSource& source,
                                 CheckDepth depth) {
  const Result<std::vector<Form>> all = forms(candidate, source, depth);
  if (!all.ok()) return {};
  for (const Form& form : *all) {
    // The cache keeps it; loading takes little time beside compiling.
    (void)engines_.first->prepare_source(form.problem, candidate.schedule, form.source);
    for (const CheckCase& one : form.cases)
      LSSAR_RETURN_IF_ERROR(truths_.truth(form.problem, one).status());
  }
  return {};
}

Result<CheckReport> CandidateChecker::check(const CandidateSpec& candidate,
                                            const KernelSource& source, CheckDepth depth) {
  CheckReport report;
  Result<std::vector<Form>> all = forms(candidate, source, depth);
  if (!all.ok()) {
    const std::optional<Verdict> verdict = verdict_of_prepare(all.status());
    if (!verdict) return all.status();
    rule_out(*verdict, all.status().message(), &report);
    return report;
  }
  for (const Form& form : *all) {
    LSSAR_ASSIGN_OR_RETURN(const bool is_right, check_form(form, candidate.schedule, &report));
    if (!is_right) return report;
  }
  return report;
}

Result<bool> CandidateChecker::check_form(const Form& form, const Schedule& schedule,
                                          CheckReport* report) {
  for (const CheckCase& one : form.cases) {
    LSSAR_ASSIGN_OR_RETURN(const bool is_right, check_case(form, schedule, one, report));
    if (is_right) continue;
    report->reason += " (" + one.to_string() + ")";
    return false;
  }
  return true;
}

// Nothing if the run failed or left damage; the verdict is then in `report`.
Result<std::optional<CheckCall>> CandidateChecker::run(Engine& engine, const Form& form,
                                                       const Schedule& schedule,
                                                       const CheckCase& one,
                                                       const CheckTruth& truth,
                                                       CheckReport* report) {
  const auto kernel = engine.prepare_source(form.problem, schedule, form.source);
  if (!kernel.ok()) {
    const std::optional<Verdict> verdict = verdict_of_prepare(kernel.status());
    if (!verdict) return kernel.status();
    rule_out(*verdict, kernel.status().message(), report);
    return std::optional<CheckCall>();
  }
  LSSAR_ASSIGN_OR_RETURN(CheckCall call,
                         CheckCall::create(engine, *kernel, one.sizes, one.lengths));
  if (on_run_) on_run_();
  if (const Status status = call.run(truth.inputs, truth.saved); !status.ok()) {
    const std::optional<Verdict> verdict = verdict_of_run(status);
    if (!verdict) return status;
    rule_out(*verdict, status.message(), report);
    return std::optional<CheckCall>();
  }
  if (const Damage damage = call.damage(); damage.found) {
    rule_out(Verdict::kOutOfBounds, damage.what, report);
    return std::optional<CheckCall>();
  }
  return std::optional<CheckCall>(std::move(call));
}

Result<bool> CandidateChecker::check_case(const Form& form, const Schedule& schedule,
                                          const CheckCase& one, CheckReport* report) {
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckTruth> truth,
                         truths_.truth(form.problem, one));
  LSSAR_ASSIGN_OR_RETURN(const std::optional<CheckCall> first,
                         run(*engines_.first, form, schedule, one, *truth, report));
  if (!first) return false;
  LSSAR_ASSIGN_OR_RETURN(const bool is_right, check_numbers(form, one, *truth, *first, report));
  if (!is_right || !check_bits(*truth, *first, report)) return false;

  std::vector<Engine*> again = {engines_.second};
  if (one.strict) again.insert(again.end(), engines_.strict.begin(), engines_.strict.end());
  for (Engine* engine : again) {
    LSSAR_ASSIGN_OR_RETURN(const std::optional<CheckCall> call,
                           run(*engine, form, schedule, one, *truth, report));
    if (!call) return false;
    if (task_.determinism == Determinism::kRepeatable) {
      if (std::string what = call->difference(*first); !what.empty())
        return rule_out(Verdict::kNotRepeatable, std::move(what), report);
    }
    LSSAR_ASSIGN_OR_RETURN(const bool again_right, check_numbers(form, one, *truth, *call, report));
    if (!again_right) return false;
  }
  return true;
}

bool CandidateChecker::check_bits(const CheckTruth& truth, const CheckCall& call,
                                  CheckReport* report) {
  const auto outputs = call.output_bytes();
  for (const auto& [name, expected] : truth.by_default) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) continue;  // X, which the default saves and the candidate does not
    const std::vector<std::byte>& bytes = found->second;
    const auto other =
        std::mismatch(expected.begin(), expected.end(), bytes.begin(), bytes.end()).first;
    if (other == expected.end() && bytes.size() == expected.size()) continue;
    return rule_out(Verdict::kNotRepeatable,
                    fmt::format("{}: other bits than the default schedule's, which invariant does "
                                "not allow, the first at byte {} of {}",
                                name, other - expected.begin(), expected.size()),
                    report);
  }
  return true;
}

Result<bool> CandidateChecker::check_numbers(const Form& form, const CheckCase& one,
                                             const CheckTruth& truth, const CheckCall& call,
                                             CheckReport* report) {
  const Problem& problem = form.problem;
  const Sizes s = sizes_of_packed(one.lengths, one.sizes);
  const ReferenceOutputs& expected = truth.expected;
  std::vector<Output> outputs;
  std::vector<std::vector<float>> gradients;
  std::string by;  // which kernel made the gradients
  if (problem.pass != Pass::kBackward) outputs.push_back({"o", OutputTensor::kO, call.values("o")});
  if (problem.pass == Pass::kForwardTrain) {
    if (saves_o(problem))
      outputs.push_back(
          {"o + saved_o", OutputTensor::kO, sum_of(call.values("o"), call.saved_o_values())});
    // What was saved is right if a backward can use it.
    LSSAR_ASSIGN_OR_RETURN(
        gradients, truths_.gradients(problem, one.sizes, truth.inputs, call.saved(), one.lengths));
    by = " of the plain backward with what this forward saved";
  } else if (problem.pass == Pass::kBackward) {
    gradients = {call.values("grad_q"), call.values("grad_k"), call.values("grad_v")};
    if (problem.score.sink != Sink::kNone) gradients.push_back(call.values("grad_sink"));
  }
  if (!gradients.empty()) {
    outputs.push_back({"grad_q" + by, OutputTensor::kDq, std::move(gradients[0])});
    outputs.push_back({"grad_k" + by, OutputTensor::kDk, std::move(gradients[1])});
    outputs.push_back({"grad_v" + by, OutputTensor::kDv, std::move(gradients[2])});
    if (gradients.size() > 3)
      outputs.push_back({"grad_sink" + by, OutputTensor::kDsink, std::move(gradients[3])});
  }

  for (const Output& output : outputs) {
    AllowedError allowed = allowed_error(problem, output.tensor, expected);
    const auto known = truth.baseline.find(output.tensor);
    const double baseline = known == truth.baseline.end() ? 0 : known->second;
    // Each of the two kernels may be off by what is allowed.
    allowed.relative =
        truth.is_plain ? 2 * allowed.relative : error_bound(allowed.relative, baseline);
    const TensorError error =
        compare(reference_values(expected, output.tensor), output.values, allowed);
    report->error = std::max(report->error, error_beyond_floor(error));
    report->baseline_error = std::max(report->baseline_error, baseline);
    if (error.passed) continue;
    const bool by_key = output.tensor == OutputTensor::kDk || output.tensor == OutputTensor::kDv;
    const bool is_v = output.tensor == OutputTensor::kO || output.tensor == OutputTensor::kDv;
    return rule_out(
        Verdict::kWrong,
        fmt::format(
            "{}: relative error {:.2e}, allowed {:.2e}, the plain kernel's {:.2e}; worst "
            "{:.2e} at {}",
            output.name, error.relative_l2, error.tolerance, baseline, error.worst_abs,
            position(error.worst_index, by_key ? s.kv_heads : s.heads, by_key ? s.seq_k : s.seq_q,
                     is_v ? problem.head_dim_v : problem.head_dim)),
        report);
  }
  return true;
}

}  // namespace lssar
