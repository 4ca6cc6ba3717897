#include "autotune/measure/check_truth.h"

#include "autotune/measure/packed_reference.h"
#include "codegen/pass_needs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace lssar {
namespace {

constexpr uint64_t kTruthSeed = 20260731;

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

const char* plain_variant(const Target& target) { return target.is_cpu() ? "cpu" : "portable"; }

double error_beyond_floor(const TensorError& error) {
  if (!std::isfinite(error.relative_l2)) {
    // The reference is 0, and the floor covers the error.
    if (error.error_l2 <= error.floor) return 0;
    return std::numeric_limits<double>::max();
  }
  if (error.error_l2 == 0) return 0;
  return error.relative_l2 * std::max(0.0, 1 - error.floor / error.error_l2);
}

Result<std::shared_ptr<const CheckTruth>> TruthSource::truth(const Problem& problem,
                                                             const CheckCase& one) {
  const std::string key = to_string(problem) + ", " + one.to_string();
  std::shared_ptr<const CheckTruth>& known = truths_[key];
  if (known == nullptr) {
    LSSAR_ASSIGN_OR_RETURN(known, make(problem, one));
  }
  return known;
}

Result<CheckCall> TruthSource::plain_call(const Problem& problem, Pass pass, const Sizes& sizes,
                                          const SequenceLengths& lengths, EpsilonFrom epsilon) {
  Problem wanted = problem;
  wanted.pass = pass;
  const Target& target = engine_.device().info().target;
  nlohmann::json plain = {{"variant", plain_variant(target)},
                          {"split_keys", 0},
                          {"dq_mode", "split"},
                          {"epsilon", epsilon_name(epsilon)}};
  if (problem.invariant) plain.erase("dq_mode");  // it has the default's only
  LSSAR_ASSIGN_OR_RETURN(const Schedule schedule, schedule_for(wanted, target, plain));
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedKernel> kernel,
                         engine_.prepare(wanted, schedule));
  return CheckCall::create(engine_, std::move(kernel), sizes, lengths);
}

Result<SavedTensors> TruthSource::saved(const Problem& problem, const Sizes& sizes,
                                        const RandomInputs& inputs,
                                        const SequenceLengths& lengths) {
  LSSAR_ASSIGN_OR_RETURN(CheckCall forward,
                         plain_call(problem, Pass::kForwardTrain, sizes, lengths));
  LSSAR_RETURN_IF_ERROR(forward.run(inputs, {}).with_context("the plain kernel"));
  return forward.saved();
}

Result<std::vector<std::vector<float>>> TruthSource::gradients(const Problem& problem,
                                                               const Sizes& sizes,
                                                               const RandomInputs& inputs,
                                                               const SavedTensors& saved,
                                                               const SequenceLengths& lengths) {
  const bool has_x = !saved.x.empty() || saved.o.empty() || !needs_epsilon(problem);
  LSSAR_ASSIGN_OR_RETURN(CheckCall backward,
                         plain_call(problem, Pass::kBackward, sizes, lengths,
                                    has_x ? EpsilonFrom::kX : EpsilonFrom::kPass));
  LSSAR_RETURN_IF_ERROR(backward.run(inputs, saved));
  std::vector<std::vector<float>> gradients = {backward.values("grad_q"), backward.values("grad_k"),
                                               backward.values("grad_v")};
  if (problem.score.sink != Sink::kNone) gradients.push_back(backward.values("grad_sink"));
  return gradients;
}

Status TruthSource::add_by_default(const Problem& problem, const CheckCase& one,
                                   CheckTruth& truth) {
  const Schedule schedule = default_schedule(problem, engine_.device().info().target);
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedKernel> kernel,
                         engine_.prepare(problem, schedule));
  LSSAR_ASSIGN_OR_RETURN(CheckCall call,
                         CheckCall::create(engine_, std::move(kernel), one.sizes, one.lengths));
  LSSAR_RETURN_IF_ERROR(call.run(truth.inputs, truth.saved).with_context("the default schedule"));
  truth.by_default = call.output_bytes();
  return {};
}

Result<std::shared_ptr<const CheckTruth>> TruthSource::make(const Problem& problem,
                                                            const CheckCase& one) {
  auto truth = std::make_shared<CheckTruth>();
  const bool trains = problem.pass != Pass::kForward;
  Problem drawn = problem;
  if (trains) drawn.pass = Pass::kBackward;  // draws grad_o as well
  truth->inputs =
      random_inputs(drawn, sizes_of_packed(one.lengths, one.sizes), one.data, kTruthSeed);
  if (!trains) truth->inputs.grad_o.clear();
  const RandomInputs& in = truth->inputs;

  LSSAR_ASSIGN_OR_RETURN(
      CheckCall forward,
      plain_call(problem, trains ? Pass::kForwardTrain : Pass::kForward, one.sizes, one.lengths));
  LSSAR_RETURN_IF_ERROR(forward.run(in, {}).with_context("the plain kernel"));
  const std::vector<float> o = forward.values("o");
  std::vector<std::vector<float>> gradients(3);
  if (trains) {
    truth->saved = forward.saved();
    LSSAR_ASSIGN_OR_RETURN(gradients,
                           this->gradients(problem, one.sizes, in, truth->saved, one.lengths));
  }
  if (problem.invariant) LSSAR_RETURN_IF_ERROR(add_by_default(problem, one, *truth));

  truth->is_plain = pairs_of_call(one.sizes, one.lengths) > kMaxReferencePairs;
  if (truth->is_plain) {
    truth->expected.o = widen(o);
    truth->expected.dq = widen(gradients[0]);
    truth->expected.dk = widen(gradients[1]);
    truth->expected.dv = widen(gradients[2]);
    if (gradients.size() > 3) truth->expected.dsink = widen(gradients[3]);
    return std::shared_ptr<const CheckTruth>(std::move(truth));
  }
  LSSAR_ASSIGN_OR_RETURN(
      truth->expected,
      reference_call(drawn, one.sizes, one.lengths,
                     {widen(in.q), widen(in.k), widen(in.v), widen(in.grad_o), widen(in.sink),
                      widen(in.rotary_cos), widen(in.rotary_sin), widen(in.alibi_slopes)}));
  const ReferenceOutputs& expected = truth->expected;
  const auto add = [&](OutputTensor tensor, const std::vector<float>& got) {
    const AllowedError allowed = allowed_error(drawn, tensor, expected);
    truth->baseline[tensor] =
        error_beyond_floor(compare(reference_values(expected, tensor), got, allowed));
  };
  add(OutputTensor::kO, o);
  if (trains) {
    add(OutputTensor::kDq, gradients[0]);
    add(OutputTensor::kDk, gradients[1]);
    add(OutputTensor::kDv, gradients[2]);
    if (gradients.size() > 3) add(OutputTensor::kDsink, gradients[3]);
  }
  return std::shared_ptr<const CheckTruth>(std::move(truth));
}

}  // namespace lssar
