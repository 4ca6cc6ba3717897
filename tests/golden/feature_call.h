// Memory of a FeatureCase's calls: the tensors of all sequences, in the case's layout, on its
// device.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/visible_keys.h"
#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "reference/rotary.h"
#include "tests/capi/device_tensor.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/feature_case.h"

namespace lssar {

// [heads, length, dim] of each sequence.
using PerSequence = std::vector<std::vector<float>>;

inline TensorShape shape_of(const Side& side, int64_t heads, int64_t dim) {
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

  Status upload(const PerSequence& sequences) {
    std::vector<float> all(shape_.elements(), std::numeric_limits<float>::quiet_NaN());
    each_row([&](int64_t b, int64_t in_sequence, int64_t in_tensor) {
      std::copy_n(sequences[b].begin() + in_sequence, shape_.dim, all.begin() + in_tensor);
    });
    return tensor_.upload(all);
  }

  Result<PerSequence> download() const {
    LSSAR_ASSIGN_OR_RETURN(std::vector<float> all, tensor_.download());
    const float poison = unpack(dtype_, std::vector<std::byte>(dtype_bytes(dtype_), kNanByte))[0];
    PerSequence sequences;
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

  // An error unless it has these, and NaN everywhere else.
  Status check_holds(const PerSequence& sequences) const {
    LSSAR_ASSIGN_OR_RETURN(const std::vector<float> all, tensor_.download());
    std::vector<float> expected(all.size(), std::numeric_limits<float>::quiet_NaN());
    each_row([&](int64_t b, int64_t in_sequence, int64_t in_tensor) {
      std::copy_n(sequences[b].begin() + in_sequence, shape_.dim, expected.begin() + in_tensor);
    });
    expected = unpack(dtype_, pack(dtype_, expected));
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] != expected[i] && !(std::isnan(all[i]) && std::isnan(expected[i])))
        return internal_error(
            fmt::format("{}[{}] = {}: must be {}", name_, i, all[i], expected[i]));
    return {};
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

// Memory and inputs of one call.
class FeatureCall {
 public:
  FeatureCall(lssar_context* context, const FeatureCase& c, const Side& queries, const Side& keys)
      : case_(c),
        queries_(queries),
        keys_(keys),
        added_(c.appends ? added_to(keys) : Side{}),
        q(context, "q", c, queries, c.problem.heads, c.problem.head_dim),
        k(context, "k", c, keys, c.problem.kv_heads, c.problem.head_dim),
        v(context, "v", c, keys, c.problem.kv_heads, c.problem.head_dim_v),
        o(context, "o", c, queries, c.problem.heads, c.problem.head_dim_v),
        grad_o(context, "grad_o", c, queries, c.problem.heads, c.problem.head_dim_v),
        grad_q(context, "grad_q", c, queries, c.problem.heads, c.problem.head_dim),
        grad_k(context, "grad_k", c, keys, c.problem.kv_heads, c.problem.head_dim),
        grad_v(context, "grad_v", c, keys, c.problem.kv_heads, c.problem.head_dim_v),
        k_new(context, "k_new", c, added_, c.problem.kv_heads, c.problem.head_dim),
        v_new(context, "v_new", c, added_, c.problem.kv_heads, c.problem.head_dim_v),
        saved_o(context),
        grad_sink(context),
        saved_stats_(context),
        saved_x_(context),
        sink_(context),
        rotary_cos_(context),
        rotary_sin_(context),
        slopes_(context),
        workspace_(context),
        cu_q_(context),
        cu_k_(context),
        cu_new_(context),
        used_q_(context),
        used_k_(context) {
    for (int64_t b = 0; b < queries.count(); ++b)
      inputs.push_back(random_inputs(c.problem, sizes_of(b), InputKind::kGauss, c.seed * 100 + b));
  }

  Sizes sizes_of(int64_t b) const {
    return make_sizes(1, case_.problem.heads, case_.problem.kv_heads, queries_.lengths[b],
                      keys_.lengths[b]);
  }
  // These are one for all sequences.
  const std::vector<float>& sink() const { return inputs[0].sink; }
  const std::vector<float>& slopes() const { return inputs[0].alibi_slopes; }

  // What k and v hold, or with new ones after the call.
  PerSequence keys() const { return seen_of(&RandomInputs::k, case_.problem.head_dim); }
  PerSequence values() const { return seen_of(&RandomInputs::v, case_.problem.head_dim_v); }

  Status set_up(const lssar_plan* plan) {
    for (SequenceTensor* tensor :
         {&o, &grad_q, &grad_k, &grad_v, &q, &k, &v, &grad_o, &k_new, &v_new})
      LSSAR_RETURN_IF_ERROR(tensor->allocate());
    LSSAR_RETURN_IF_ERROR(q.upload(all_of(&RandomInputs::q)));
    LSSAR_RETURN_IF_ERROR(upload_keys(keys(), case_.problem.head_dim, k, k_new));
    LSSAR_RETURN_IF_ERROR(upload_keys(values(), case_.problem.head_dim_v, v, v_new));
    LSSAR_RETURN_IF_ERROR(grad_o.upload(all_of(&RandomInputs::grad_o)));
    LSSAR_RETURN_IF_ERROR(write_all(sink_, sink()));
    LSSAR_RETURN_IF_ERROR(grad_sink.allocate(sink_.bytes()));
    const RotaryTables rotary = rotary_tables(keys_.most(), case_.problem.rotary_dim);
    LSSAR_RETURN_IF_ERROR(write_all(rotary_cos_, rotary.cos));
    LSSAR_RETURN_IF_ERROR(write_all(rotary_sin_, rotary.sin));
    LSSAR_RETURN_IF_ERROR(write_all(slopes_, slopes()));
    LSSAR_RETURN_IF_ERROR(write_all(cu_q_, queries_.cu_seqlens()));
    LSSAR_RETURN_IF_ERROR(write_all(cu_k_, keys_.cu_seqlens()));
    LSSAR_RETURN_IF_ERROR(write_all(cu_new_, added_.cu_seqlens()));
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
    call.rotary_cos = static_cast<const float*>(rotary_cos_.data());
    call.rotary_sin = static_cast<const float*>(rotary_sin_.data());
    call.rotary_positions = keys_.most();
    call.alibi_slopes = static_cast<const float*>(slopes_.data());
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

  PerSequence all_of(std::vector<float> RandomInputs::*member) const {
    PerSequence sequences;
    for (const RandomInputs& in : inputs) sequences.push_back(in.*member);
    return sequences;
  }

  static Side added_to(const Side& keys) {
    Side added;
    for (size_t b = 0; b < keys.lengths.size(); ++b)
      added.lengths.push_back(std::min(keys.lengths[b], 1 + static_cast<int32_t>(b) % 3));
    return added;
  }

  // New rows are each sequence's last ones. Before the call the tensor of all has NaN there.
  Status upload_keys(PerSequence all, int64_t dim, SequenceTensor& tensor, SequenceTensor& added) {
    PerSequence last(added_.lengths.size());
    for (size_t b = 0; b < last.size(); ++b)
      for (int64_t head = 1; head <= case_.problem.kv_heads; ++head) {
        const auto end = all[b].begin() + head * keys_.lengths[b] * dim;
        last[b].insert(last[b].end(), end - added_.lengths[b] * dim, end);
        std::fill(end - added_.lengths[b] * dim, end, std::numeric_limits<float>::quiet_NaN());
      }
    LSSAR_RETURN_IF_ERROR(tensor.upload(all));
    return added.upload(last);
  }

  // Keys, or values, where those that no query sees are no numbers. Only windows promise that these
  // reach no gradient: without one, keys are unseen where a sequence has no query.
  PerSequence seen_of(std::vector<float> RandomInputs::*member, int64_t dim) const {
    PerSequence sequences = all_of(member);
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
    if (!case_.appends) return;
    call.k_new = k_new.ref();
    call.v_new = v_new.ref();
    call.seq_new = added_.most();
    call.cu_seqlens_new = ints(cu_new_);
    call.total_new = added_.total();
  }

  const FeatureCase& case_;
  const Side &queries_, &keys_;
  const Side added_;

 public:
  SequenceTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v, k_new, v_new;
  Buffer saved_o, grad_sink;
  std::vector<RandomInputs> inputs;

 private:
  Buffer saved_stats_, saved_x_, sink_, rotary_cos_, rotary_sin_, slopes_, workspace_, cu_q_, cu_k_,
      cu_new_, used_q_, used_k_;
};

}  // namespace lssar
