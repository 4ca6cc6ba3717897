#include "tests/golden/feature_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "codegen/visible_keys.h"
#include "reference/numerics.h"
#include "tests/capi/device_tensor.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

// [heads, length, dim] of each sequence.
using Sequences = std::vector<std::vector<float>>;

TensorShape shape_of(const Side& side, int64_t heads, int64_t dim) {
  return {side.is_packed ? 1 : side.count(), heads, side.is_packed ? side.total() : side.most(),
          dim};
}

// A tensor whose rows are those of sequences.
class SequenceTensor {
 public:
  SequenceTensor(lssar_context* context, const char* name, const FeatureCase& c, const Side& side,
                 int64_t heads, int64_t dim)
      : side_(side),
        dtype_(c.problem.dtype),
        shape_(shape_of(side, heads, dim)),
        name_(name),
        tensor_(context, name, dtype_, shape_, c.layout) {}

  Status allocate() { return tensor_.allocate(); }

  Status upload(const Sequences& sequences) {
    std::vector<float> all(shape_.elements(), std::numeric_limits<float>::quiet_NaN());
    each_row([&](int64_t b, int64_t in_sequence, int64_t in_tensor) {
      std::copy_n(sequences[b].begin() + in_sequence, shape_.dim, all.begin() + in_tensor);
    });
    return tensor_.upload(all);
  }

  Result<Sequences> download() const {
    LSSAR_ASSIGN_OR_RETURN(std::vector<float> all, tensor_.download());
    const float poison = unpack(dtype_, std::vector<std::byte>(dtype_bytes(dtype_), kNanByte))[0];
    Sequences sequences;
    for (const int32_t length : side_.lengths)
      sequences.emplace_back(length * shape_.heads * shape_.dim);
    each_row([&](int64_t b, int64_t in_sequence, int64_t in_tensor) {
      std::copy_n(all.begin() + in_tensor, shape_.dim, sequences[b].begin() + in_sequence);
      std::fill_n(all.begin() + in_tensor, shape_.dim, poison);
    });
    const std::vector<float> untouched(all.size(), poison);
    if (std::memcmp(all.data(), untouched.data(), all.size() * sizeof(float)) != 0)
      return internal_error(fmt::format("{}: a row of no sequence was written", name_));
    return sequences;
  }

  lssar_tensor ref() const { return tensor_.ref(); }

 private:
  // visit(sequence, where the row is in it, where it is in the tensor)
  template <class Visit>
  void each_row(const Visit& visit) const {
    for (int64_t b = 0; b < side_.count(); ++b)
      for (int64_t head = 0; head < shape_.heads; ++head)
        for (int64_t i = 0; i < side_.lengths[b]; ++i) {
          const int64_t entry = side_.is_packed ? 0 : b;
          const int64_t row = side_.is_packed ? side_.first_row(b) + i : i;
          visit(b, (head * side_.lengths[b] + i) * shape_.dim,
                ((entry * shape_.heads + head) * shape_.length + row) * shape_.dim);
        }
  }

  const Side& side_;
  const DType dtype_;
  const TensorShape shape_;
  const char* const name_;
  DeviceTensor tensor_;
};

template <class Value>
Status write_all(Buffer& buffer, const std::vector<Value>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(Value));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  LSSAR_RETURN_IF_ERROR(buffer.allocate(bytes.size()));
  return buffer.write(bytes);
}

Result<std::vector<float>> read_floats(const Buffer& buffer) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, buffer.read());
  return unpack(DType::kFp32, bytes);
}

// Memory and inputs of one call.
class FeatureCall {
 public:
  FeatureCall(lssar_context* context, const FeatureCase& c, const Side& queries, const Side& keys)
      : case_(c),
        queries_(queries),
        keys_(keys),
        q(context, "q", c, queries, c.problem.heads, c.problem.head_dim),
        k(context, "k", c, keys, c.problem.kv_heads, c.problem.head_dim),
        v(context, "v", c, keys, c.problem.kv_heads, c.problem.head_dim_v),
        o(context, "o", c, queries, c.problem.heads, c.problem.head_dim_v),
        grad_o(context, "grad_o", c, queries, c.problem.heads, c.problem.head_dim_v),
        grad_q(context, "grad_q", c, queries, c.problem.heads, c.problem.head_dim),
        grad_k(context, "grad_k", c, keys, c.problem.kv_heads, c.problem.head_dim),
        grad_v(context, "grad_v", c, keys, c.problem.kv_heads, c.problem.head_dim_v),
        saved_o(context),
        grad_sink(context),
        saved_stats_(context),
        saved_x_(context),
        sink_(context),
        workspace_(context),
        cu_q_(context),
        cu_k_(context),
        used_q_(context),
        used_k_(context) {
    for (int64_t b = 0; b < queries.count(); ++b)
      inputs.push_back(random_inputs(c.problem, sizes_of(b), InputKind::kGauss, c.seed * 100 + b));
  }

  Sizes sizes_of(int64_t b) const {
    return make_sizes(1, case_.problem.heads, case_.problem.kv_heads, queries_.lengths[b],
                      keys_.lengths[b]);
  }
  const std::vector<float>& sink() const { return inputs[0].sink; }  // one for all

  Status set_up(const lssar_plan* plan) {
    for (SequenceTensor* tensor : {&o, &grad_q, &grad_k, &grad_v, &q, &k, &v, &grad_o})
      LSSAR_RETURN_IF_ERROR(tensor->allocate());
    LSSAR_RETURN_IF_ERROR(q.upload(all_of(&RandomInputs::q)));
    LSSAR_RETURN_IF_ERROR(k.upload(seen_of(&RandomInputs::k, case_.problem.head_dim)));
    LSSAR_RETURN_IF_ERROR(v.upload(seen_of(&RandomInputs::v, case_.problem.head_dim_v)));
    LSSAR_RETURN_IF_ERROR(grad_o.upload(all_of(&RandomInputs::grad_o)));
    LSSAR_RETURN_IF_ERROR(write_all(sink_, sink()));
    LSSAR_RETURN_IF_ERROR(grad_sink.allocate(sink_.bytes()));
    LSSAR_RETURN_IF_ERROR(write_all(cu_q_, queries_.cu_seqlens()));
    LSSAR_RETURN_IF_ERROR(write_all(cu_k_, keys_.cu_seqlens()));
    LSSAR_RETURN_IF_ERROR(write_all(used_q_, queries_.lengths));
    LSSAR_RETURN_IF_ERROR(write_all(used_k_, keys_.lengths));
    return allocate_what_the_plan_needs(plan);
  }

  lssar_call call() const {
    lssar_call call = {};
    call.struct_size = sizeof(call);
    call.sizes = sizes();
    call.q = q.ref();
    call.k = k.ref();
    call.v = v.ref();
    call.o = o.ref();
    call.grad_o = grad_o.ref();
    call.grad_q = grad_q.ref();
    call.grad_k = grad_k.ref();
    call.grad_v = grad_v.ref();
    call.saved_o = saved_o.data();
    call.saved_stats = static_cast<float*>(saved_stats_.data());
    call.saved_x = saved_x_.data();
    call.sink = static_cast<const float*>(sink_.data());
    call.grad_sink = static_cast<float*>(grad_sink.data());
    call.workspace = workspace_.data();
    call.workspace_bytes = workspace_.bytes();
    if (case_.lengths == LengthsGiven::kInCall) add_lengths(call);
    return call;
  }

 private:
  lssar_sizes sizes() const {
    return {queries_.count(), case_.problem.heads, case_.problem.kv_heads, queries_.most(),
            keys_.most()};
  }

  Sequences all_of(std::vector<float> RandomInputs::*member) const {
    Sequences sequences;
    for (const RandomInputs& in : inputs) sequences.push_back(in.*member);
    return sequences;
  }

  // Keys, or values, where those that no query sees are no numbers. Only windows promise that these
  // reach no gradient: without one, keys are unseen where a sequence has no query.
  Sequences seen_of(std::vector<float> RandomInputs::*member, int64_t dim) const {
    Sequences sequences = all_of(member);
    if (!has_window(case_.problem)) return sequences;
    for (int64_t b = 0; b < keys_.count(); ++b)
      for (int64_t row = 0; row < case_.problem.kv_heads * keys_.lengths[b]; ++row)
        if (!is_seen(b, row % keys_.lengths[b]))
          std::fill_n(sequences[b].begin() + row * dim, dim,
                      std::numeric_limits<float>::quiet_NaN());
    return sequences;
  }

  bool is_seen(int64_t b, int64_t key) const {
    for (int64_t i = 0; i < queries_.lengths[b]; ++i)
      if (visible_keys(case_.problem, queries_.lengths[b], keys_.lengths[b], i).has(key))
        return true;
    return false;
  }

  Status allocate_what_the_plan_needs(const lssar_plan* plan) {
    const lssar_sizes sizes = this->sizes();
    lssar_saved_sizes saved = {};
    size_t bytes = 0;
    if (case_.lengths == LengthsGiven::kInCall) {
      LSSAR_RETURN_IF_ERROR(to_status(
          lssar_plan_varlen_sizes(plan, &sizes, queries_.total(), keys_.total(), &bytes, &saved)));
    } else {
      LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_workspace_size(plan, &sizes, &bytes)));
      LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_saved_sizes(plan, &sizes, &saved)));
    }
    LSSAR_RETURN_IF_ERROR(workspace_.allocate(bytes));
    LSSAR_RETURN_IF_ERROR(saved_o.allocate(saved.o));
    LSSAR_RETURN_IF_ERROR(saved_stats_.allocate(saved.stats));
    return saved_x_.allocate(saved.x);
  }

  void add_lengths(lssar_call& call) const {
    const auto ints = [](const Buffer& buffer) {
      return static_cast<const int32_t*>(buffer.data());
    };
    if (queries_.is_packed) call.cu_seqlens_q = ints(cu_q_);
    if (keys_.is_packed) call.cu_seqlens_k = ints(cu_k_);
    if (!queries_.rows.empty()) call.seqused_q = ints(used_q_);
    if (!keys_.rows.empty()) call.seqused_k = ints(used_k_);
    call.total_q = queries_.total();
    call.total_k = keys_.total();
  }

  const FeatureCase& case_;
  const Side &queries_, &keys_;

 public:
  SequenceTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  Buffer saved_o, grad_sink;
  std::vector<RandomInputs> inputs;

 private:
  Buffer saved_stats_, saved_x_, sink_, workspace_, cu_q_, cu_k_, used_q_, used_k_;
};

std::vector<ReferenceOutputs> references_of(const FeatureCase& c, const FeatureCall& memory) {
  std::vector<ReferenceOutputs> all;
  for (size_t b = 0; b < memory.inputs.size(); ++b) {
    const RandomInputs& in = memory.inputs[b];
    const auto outputs = reference_attention(
        c.problem, memory.sizes_of(static_cast<int64_t>(b)),
        {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o), widened(memory.sink())});
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
                      const Result<Sequences>& actual) {
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
  Result<Sequences> unrounded = memory.o.download();
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
  if (c.lengths != LengthsGiven::kInProblem) return problem;
  problem.seq_q = c.calls[0].first.most();
  problem.seq_k = c.calls[0].second.most();
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
