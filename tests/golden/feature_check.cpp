#include "tests/golden/feature_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <tuple>

#include "reference/numerics.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/feature_call.h"

namespace lssar {
namespace {

Result<std::vector<float>> read_floats(const Buffer& buffer) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, buffer.read());
  return unpack(DType::kFp32, bytes);
}

std::vector<ReferenceOutputs> references_of(const FeatureCase& c, const FeatureCall& memory) {
  std::vector<ReferenceOutputs> all;
  for (size_t b = 0; b < memory.inputs.size(); ++b) {
    const RandomInputs& in = memory.inputs[b];
    const auto outputs = reference_attention(
        c.problem, memory.sizes_of(static_cast<int64_t>(b)),
        {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o), widened(memory.sink()),
         widened(in.rotary_cos), widened(in.rotary_sin), widened(memory.slopes())});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    all.push_back(outputs.ok() ? *outputs : ReferenceOutputs());
    if (!in.grad_o.empty()) continue;
    // Without queries the reference takes the call for a forward: gradients are 0.
    all.back().dk.assign(in.k.size(), 0.0);
    all.back().dv.assign(in.v.size(), 0.0);
    all.back().dsink.assign(in.sink.size(), 0.0);
  }
  return all;
}

void expect_sequences(const FeatureCase& c, OutputTensor tensor,
                      const std::vector<ReferenceOutputs>& expected,
                      const Result<PerSequence>& actual) {
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  for (size_t b = 0; b < expected.size(); ++b) {
    SCOPED_TRACE(fmt::format("sequence {}", b));
    expect_close(c.problem, tensor, expected[b], (*actual)[b]);
  }
}

// o with what rounding took from it. A sequence's part of that begins behind all rows before it.
void expect_saved_o(const FeatureCase& c, const Side& queries,
                    const std::vector<ReferenceOutputs>& expected, const FeatureCall& memory) {
  const Result<std::vector<std::byte>> saved = memory.saved_o.read();
  ASSERT_TRUE(saved.ok()) << saved.status().to_string();
  const std::vector<float> rounding = unpack(DType::kBf16, *saved);
  Result<PerSequence> unrounded = memory.o.download();
  ASSERT_TRUE(unrounded.ok()) << unrounded.status().to_string();
  for (int64_t b = 0; b < queries.count(); ++b) {
    const int64_t row = c.problem.heads * c.problem.head_dim_v;
    std::vector<float>& o = (*unrounded)[b];
    std::transform(o.begin(), o.end(), rounding.begin() + queries.first_row(b) * row, o.begin(),
                   std::plus<>());
  }
  SCOPED_TRACE("saved_o");
  expect_sequences(c, OutputTensor::kO, expected, unrounded);
}

// A sink is one for all sequences. Sequences err independently.
void expect_grad_sink(const FeatureCase& c, const std::vector<ReferenceOutputs>& expected,
                      const FeatureCall& memory) {
  const Result<std::vector<float>> actual = read_floats(memory.grad_sink);
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  ReferenceOutputs sum;
  sum.dsink.assign(memory.sink().size(), 0.0);
  for (const ReferenceOutputs& one : expected) {
    for (size_t head = 0; head < sum.dsink.size(); ++head) sum.dsink[head] += one.dsink[head];
    sum.floor_norm_dsink += one.floor_norm_dsink;
    sum.row_norm_dsink = std::hypot(sum.row_norm_dsink, one.row_norm_dsink);
    sum.rotation_error_dsink = std::hypot(sum.rotation_error_dsink, one.rotation_error_dsink);
  }
  expect_close(c.problem, OutputTensor::kDsink, sum, *actual);
}

Status execute(const FeatureCase& c, const lssar_plan* plan, const FeatureCall& memory) {
  const lssar_call call = memory.call();
  if (c.pass == Pass::kForward) return to_status(lssar_execute_forward(plan, &call));
  LSSAR_RETURN_IF_ERROR(to_status(lssar_execute_forward_train(plan, &call)));
  if (c.pass != Pass::kBackward) return {};
  return to_status(lssar_execute_backward(plan, &call));
}

void check_call(lssar_context* context, const FeatureCase& c, const lssar_plan* plan,
                const Side& queries, const Side& keys) {
  FeatureCall memory(context, c, queries, keys);
  const Status set_up = memory.set_up(plan);
  ASSERT_TRUE(set_up.ok()) << set_up.to_string();
  const Status done = execute(c, plan, memory);
  ASSERT_TRUE(done.ok()) << done.to_string();
  const std::vector<ReferenceOutputs> expected = references_of(c, memory);
  expect_sequences(c, OutputTensor::kO, expected, memory.o.download());
  if (c.appends) {
    for (const Status& held :
         {memory.k.check_holds(memory.keys()), memory.v.check_holds(memory.values())})
      EXPECT_TRUE(held.ok()) << held.to_string();
  }
  if (c.pass == Pass::kForward) return;
  if (c.problem.dtype != DType::kFp32) expect_saved_o(c, queries, expected, memory);
  if (c.pass != Pass::kBackward) return;
  expect_sequences(c, OutputTensor::kDq, expected, memory.grad_q.download());
  expect_sequences(c, OutputTensor::kDk, expected, memory.grad_k.download());
  expect_sequences(c, OutputTensor::kDv, expected, memory.grad_v.download());
  expect_grad_sink(c, expected, memory);
}

lssar_problem to_c(const FeatureCase& c) {
  const uint32_t passes = c.pass == Pass::kForward ? LSSAR_PASS_FORWARD
                          : c.pass == Pass::kForwardTrain
                              ? LSSAR_PASS_FORWARD_TRAIN
                              : LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  lssar_problem problem = to_c(c.problem, passes, c.alignment);
  problem.varlen = c.lengths == LengthsGiven::kInCall ? 1 : 0;
  const bool is_fixed = c.lengths == LengthsGiven::kInProblem;
  if (is_fixed || c.device.has_few_queries()) problem.seq_q = c.calls[0].first.most();
  if (is_fixed) problem.seq_k = c.calls[0].second.most();
  return problem;
}

PlanPtr prepared_plan(lssar_context* context, const FeatureCase& c) {
  lssar_plan* plan = nullptr;
  EXPECT_EQ(make_plan(context, c, &plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
  PlanPtr owned(plan);
  if (plan == nullptr || lssar_plan_prepare(plan) == LSSAR_STATUS_OK) return owned;
  ADD_FAILURE() << lssar_last_error_detail();
  return nullptr;
}

}  // namespace

lssar_context* feature_context(const FeatureDevice& device, uint64_t seed) {
  static auto& contexts = *new std::map<std::tuple<std::string, uint64_t>, ContextPtr>;
  ContextPtr& context = contexts[{device.name, seed}];
  if (context != nullptr) return context.get();
  setenv("LSSAR_VIRTUAL_CHECKS", "letter", 1);
  setenv("LSSAR_VIRTUAL_ELECT", "drawn", 1);
  setenv("LSSAR_VIRTUAL_SEED", std::to_string(seed).c_str(), 1);
  auto opened = open_context(device.device, device.compiler, device.target);
  for (const char* name : {"LSSAR_VIRTUAL_CHECKS", "LSSAR_VIRTUAL_ELECT", "LSSAR_VIRTUAL_SEED"})
    unsetenv(name);
  EXPECT_TRUE(opened.ok()) << opened.status().to_string();
  if (opened.ok()) context = std::move(*opened);
  return context.get();
}

lssar_status make_plan(lssar_context* context, const FeatureCase& c, lssar_plan** plan) {
  const lssar_problem problem = to_c(c);
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = *c.schedule_json == 0 ? nullptr : c.schedule_json;
  return lssar_plan_create(context, &problem, &options, plan);
}

void check_features(const FeatureCase& c) {
  lssar_context* context = feature_context(c.device, c.seed);
  if (context == nullptr) return;
  const PlanPtr plan = prepared_plan(context, c);
  if (plan == nullptr) return;
  for (const auto& [queries, keys] : c.calls) {
    SCOPED_TRACE(fmt::format("at most {} queries, {} keys", queries.most(), keys.most()));
    check_call(context, c, plan.get(), queries, keys);
  }
}

}  // namespace lssar
