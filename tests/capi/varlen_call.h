// Calls of sequences with lengths of their own, from host memory: inputs, poison, and the
// comparison with the reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/numerics.h"
#include "reference/rotary.h"
#include "score/score_text.h"
#include "tests/capi/run_capi.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {

using Lengths = std::vector<int32_t>;

inline constexpr std::byte kPoison{0xFF};  // NaN in every dtype

// How the queries, or the keys, of a call are laid out.
struct Side {
  Lengths lengths;
  bool is_packed = true;
  Lengths rows = {};  // of each sequence; empty: its length. More of them: seqused is given

  int64_t count() const { return static_cast<int64_t>(lengths.size()); }
  const Lengths& all_rows() const { return rows.empty() ? lengths : rows; }
  int64_t most() const {
    int32_t most = 0;
    for (const int32_t n : all_rows()) most = std::max(most, n);
    return most;
  }
  int64_t total() const {
    if (!is_packed) return count() * most();
    return std::accumulate(all_rows().begin(), all_rows().end(), int64_t{0});
  }
  int64_t first_row(int64_t b) const {
    if (!is_packed) return b * most();
    return std::accumulate(all_rows().begin(), all_rows().begin() + b, int64_t{0});
  }
  Lengths cu_seqlens() const {
    Lengths sums = {0};
    for (const int32_t n : all_rows()) sums.push_back(sums.back() + n);
    return sums;
  }
};

struct VarlenCase {
  Problem problem;
  Side q, k;
  int num_threads = 0;
  int32_t alignment = 0;  // as lssar_problem.alignment
  const char* schedule_json = nullptr;
  bool is_forward_alone = false;  // the plan has no passes of training
  bool states_longest = false;    // the problem says how many queries and keys a sequence may have
  bool shifts_tables = false;     // rotary tables are aligned to 4 bytes only
  Side added = {};  // new keys, each sequence's last ones, which k and v do not hold yet; or none
};

// A tensor [total, heads, dim] with the rows of all sequences, poisoned where nobody's are.
class Rows {
 public:
  Rows(const Side& side, DType dtype, int64_t heads, int64_t dim)
      : side_(side),
        dtype_(dtype),
        heads_(heads),
        dim_(dim),
        bytes_(side.total() * heads * dim * dtype_bytes(dtype), kPoison) {}

  // [heads, length, dim] of sequence b.
  void write(int64_t b, const std::vector<float>& values) {
    const std::vector<std::byte> packed = pack(dtype_, values);
    each_row(b, [&](size_t here, size_t there, size_t size) {
      std::memcpy(&bytes_[there], &packed[here], size);
    });
  }
  // The same, and leaves poison.
  std::vector<float> take(int64_t b) {
    std::vector<std::byte> packed(side_.lengths[b] * heads_ * dim_ * dtype_bytes(dtype_));
    each_row(b, [&](size_t here, size_t there, size_t size) {
      std::memcpy(&packed[here], &bytes_[there], size);
      std::memset(&bytes_[there], static_cast<int>(kPoison), size);
    });
    return unpack(dtype_, packed);
  }
  // Leaves poison in the last `count` rows of sequence b.
  void poison_last(int64_t b, int64_t count) {
    const auto row_bytes = static_cast<size_t>(heads_ * dim_ * dtype_bytes(dtype_));
    const int64_t end = side_.first_row(b) + side_.lengths[b];
    std::memset(&bytes_[(end - count) * row_bytes], static_cast<int>(kPoison), count * row_bytes);
  }
  bool is_poison() const {
    return std::all_of(bytes_.begin(), bytes_.end(), [](std::byte b) { return b == kPoison; });
  }
  lssar_tensor ref() {
    const int64_t row = heads_ * dim_;
    return {bytes_.data(), {side_.is_packed ? 0 : side_.most() * row, dim_, row}};
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class Visit>
  void each_row(int64_t b, const Visit& visit) const {
    const auto size = static_cast<size_t>(dim_ * dtype_bytes(dtype_));
    for (int64_t head = 0; head < heads_; ++head) {
      for (int64_t i = 0; i < side_.lengths[b]; ++i) {
        const int64_t row = side_.first_row(b) + i;
        visit((head * side_.lengths[b] + i) * size, (row * heads_ + head) * size, size);
      }
    }
  }

  const Side& side_;
  const DType dtype_;
  const int64_t heads_, dim_;
  std::vector<std::byte> bytes_;
};

// Memory, inputs and lengths of a call.
class VarlenCall {
 public:
  explicit VarlenCall(const VarlenCase& c)
      : case_(c),
        q(c.q, c.problem.dtype, c.problem.heads, c.problem.head_dim),
        k(c.k, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim),
        v(c.k, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim_v),
        o(c.q, c.problem.dtype, c.problem.heads, c.problem.head_dim_v),
        grad_o(o),
        grad_q(q),
        grad_k(k),
        grad_v(v),
        cu_q_(c.q.cu_seqlens()),
        cu_k_(c.k.cu_seqlens()),
        rotary_(rotary_tables(c.k.most(), c.problem.rotary_dim)),
        k_new(c.added, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim),
        v_new(c.added, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim_v),
        cu_new_(c.added.cu_seqlens()),
        grad_sink(c.problem.heads) {
    for (int64_t b = 0; b < c.q.count(); ++b) {
      inputs.push_back(random_inputs(c.problem, sizes_of(b), InputKind::kGauss, 100 + b));
      q.write(b, inputs[b].q);
      k.write(b, inputs[b].k);
      v.write(b, inputs[b].v);
      grad_o.write(b, inputs[b].grad_o);
      if (!c.added.lengths.empty()) move_new(b);
    }
    if (!inputs.empty()) sink = inputs[0].sink;  // one for all
    if (c.shifts_tables) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      rotary_.cos.insert(rotary_.cos.begin(), nan);
      rotary_.sin.insert(rotary_.sin.begin(), nan);
    }
  }

  Sizes sizes_of(int64_t b) const {
    return sizes_with(1, case_.problem.heads, case_.problem.kv_heads, case_.q.lengths[b],
                      case_.k.lengths[b]);
  }

  lssar_call make(const lssar_plan* plan) {
    lssar_call call = {};
    call.struct_size = sizeof(call);
    call.sizes = {case_.q.count(), case_.problem.heads, case_.problem.kv_heads, case_.q.most(),
                  case_.k.most()};
    lssar_saved_sizes saved = {};
    size_t bytes = 0;
    EXPECT_EQ(lssar_plan_varlen_sizes(plan, &call.sizes, case_.q.total(), case_.k.total(), &bytes,
                                      &saved),
              LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    const float nan = std::numeric_limits<float>::quiet_NaN();  // nobody relies on what is there
    workspace_.assign(bytes / 16 + 1, {{nan, nan, nan, nan}});
    saved_o_.assign(saved.o / 16 + 1, {});
    saved_stats_.assign(saved.stats / 16 + 1, {});
    saved_x_.assign(saved.x / 16 + 1, {});
    call.q = q.ref();
    call.k = k.ref();
    call.v = v.ref();
    call.o = o.ref();
    call.grad_o = grad_o.ref();
    call.grad_q = grad_q.ref();
    call.grad_k = grad_k.ref();
    call.grad_v = grad_v.ref();
    call.saved_o = &saved_o_[0].x[0];
    call.saved_stats = &saved_stats_[0].x[0];
    call.saved_x = saved_x_.data();
    call.workspace = workspace_.data();
    call.workspace_bytes = bytes;
    call.num_threads = case_.num_threads;
    if (!sink.empty()) call.sink = sink.data(), call.grad_sink = grad_sink.data();
    if (case_.q.is_packed) call.cu_seqlens_q = cu_q_.data();
    if (case_.k.is_packed) call.cu_seqlens_k = cu_k_.data();
    if (!case_.q.rows.empty()) call.seqused_q = case_.q.lengths.data();
    if (!case_.k.rows.empty()) call.seqused_k = case_.k.lengths.data();
    call.total_q = case_.q.total();
    call.total_k = case_.k.total();
    if (!case_.added.lengths.empty()) {
      call.k_new = k_new.ref();
      call.v_new = v_new.ref();
      call.seq_new = case_.added.most();
      if (case_.added.is_packed) call.cu_seqlens_new = cu_new_.data();
      call.total_new = case_.added.total();
    }
    if (case_.problem.rotary_dim == 0) return call;
    const int shift = case_.shifts_tables ? 1 : 0;
    call.rotary_cos = rotary_.cos.data() + shift;
    call.rotary_sin = rotary_.sin.data() + shift;
    call.rotary_positions = case_.k.most();
    return call;
  }

 private:
  struct alignas(16) Sixteen {
    float x[4];
  };
  const VarlenCase& case_;

 public:
  Rows q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  std::vector<RandomInputs> inputs;
  std::vector<float> sink;

 private:
  // Moves the last keys and values of sequence b from k and v to k_new and v_new.
  void move_new(int64_t b) {
    const auto count = case_.added.lengths[b];
    const auto last_of = [&](const std::vector<float>& all, int64_t dim) {
      std::vector<float> last;
      const int64_t size = case_.k.lengths[b] * dim;  // of a head
      for (int64_t head = 0; head < case_.problem.kv_heads; ++head) {
        const auto end = all.begin() + (head + 1) * size;
        last.insert(last.end(), end - count * dim, end);
      }
      return last;
    };
    k_new.write(b, last_of(inputs[b].k, case_.problem.head_dim));
    v_new.write(b, last_of(inputs[b].v, case_.problem.head_dim_v));
    k.poison_last(b, count);
    v.poison_last(b, count);
  }

  Lengths cu_q_, cu_k_;
  RotaryTables rotary_;  // as many positions as the longest sequence needs
  std::vector<Sixteen> workspace_, saved_o_, saved_stats_, saved_x_;

 public:
  Rows k_new, v_new;

 private:
  Lengths cu_new_;

 public:
  std::vector<float> grad_sink;
};

inline lssar_problem varlen_problem(const VarlenCase& c) {
  const uint32_t training = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  lssar_problem problem =
      to_c(c.problem, LSSAR_PASS_FORWARD | (c.is_forward_alone ? 0 : training), c.alignment);
  problem.seq_q = c.states_longest ? c.q.most() : 0;
  problem.seq_k = c.states_longest ? c.k.most() : 0;
  problem.varlen = 1;
  return problem;
}

inline PlanPtr make_plan(lssar_context* context, const VarlenCase& c) {
  lssar_problem problem = varlen_problem(c);
  const std::string score = c.problem.score == ScoreFunction() ? "" : "softmax,sink=per_head";
  problem.score = score.c_str();
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = c.schedule_json;
  lssar_plan* plan = nullptr;
  EXPECT_EQ(lssar_plan_create(context, &problem, &options, &plan), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  PlanPtr owned(plan);
  EXPECT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
  return owned;
}

// Runs all passes, and compares every sequence with the reference.
inline void check(lssar_context* context, const VarlenCase& c) {
  const PlanPtr plan = make_plan(context, c);
  VarlenCall memory(c);
  const lssar_call call = memory.make(plan.get());
  for (const auto execute :
       {lssar_execute_forward, lssar_execute_forward_train, lssar_execute_backward}) {
    if (c.is_forward_alone && execute != lssar_execute_forward) continue;
    ASSERT_EQ(execute(plan.get(), &call), LSSAR_STATUS_OK) << lssar_last_error_detail();
  }
  std::vector<double> grad_sink(memory.sink.size());
  for (int64_t b = 0; b < c.q.count(); ++b) {
    const RandomInputs& in = memory.inputs[b];
    const auto expected =
        reference_attention(c.problem, memory.sizes_of(b),
                            {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o),
                             widened(memory.sink), widened(in.rotary_cos), widened(in.rotary_sin)});
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto expect = [&](OutputTensor tensor, const std::vector<float>& actual) {
      std::vector<double> values = reference_values(*expected, tensor);
      if (in.q.empty()) values.resize(actual.size());  // no query has a gradient: zeros
      const TensorError error =
          compare(values, actual, allowed_error(c.problem, tensor, *expected));
      EXPECT_TRUE(error.is_right())
          << "sequence " << b << ", " << tensor_name(tensor) << ": " << error.to_string();
    };
    expect(OutputTensor::kO, memory.o.take(b));
    if (!c.added.lengths.empty()) {
      EXPECT_EQ(memory.k.take(b), unpack(c.problem.dtype, pack(c.problem.dtype, in.k)));
      EXPECT_EQ(memory.v.take(b), unpack(c.problem.dtype, pack(c.problem.dtype, in.v)));
    }
    if (c.is_forward_alone) continue;
    expect(OutputTensor::kDq, memory.grad_q.take(b));
    expect(OutputTensor::kDk, memory.grad_k.take(b));
    expect(OutputTensor::kDv, memory.grad_v.take(b));
    for (size_t head = 0; head < expected->dsink.size(); ++head)
      grad_sink[head] += expected->dsink[head];
  }
  if (c.is_forward_alone) {
    EXPECT_TRUE(memory.o.is_poison()) << "a row of no sequence was written";
    if (!c.added.lengths.empty()) {
      EXPECT_TRUE(memory.k.is_poison() && memory.v.is_poison()) << "a row of no key was written";
    }
    return;
  }
  const double allowed = c.problem.dtype == DType::kFp32 ? 1e-4 : 4e-3;
  for (size_t head = 0; head < grad_sink.size(); ++head)
    EXPECT_NEAR(memory.grad_sink[head], grad_sink[head], allowed * (1 + std::abs(grad_sink[head])));
  for (const Rows* rows : {&memory.o, &memory.grad_q, &memory.grad_k, &memory.grad_v})
    EXPECT_TRUE(rows->is_poison()) << "a row of no sequence was written";
}

// Lengths with at least as many keys as queries, which positions need.
inline VarlenCase rotary_case(DType dtype, bool causal) {
  VarlenCase c;
  c.problem = forward_problem(dtype, 64, 64, 15, causal);
  c.problem.heads = 4;
  c.problem.kv_heads = 2;
  c.problem.rotary_dim = 48;
  c.q.lengths = {5, 0, 67, 0, 1, 12, 0};
  c.k.lengths = {7, 4, 67, 0, 97, 12, 1};
  return c;
}

inline VarlenCase packed_case(DType dtype, bool causal) {
  VarlenCase c;
  c.problem = forward_problem(dtype, 64, 64, 15, causal);
  c.problem.heads = 4;
  c.problem.kv_heads = 2;
  c.q.lengths = {5, 0, 130, 33, 1, 12, 0};
  c.k.lengths = {7, 4, 130, 0, 97, 5, 0};
  return c;
}

}  // namespace lssar
