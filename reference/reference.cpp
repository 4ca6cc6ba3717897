#include "reference/reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "reference/numerics.h"
#include "reference/reference_rounded.h"
#include "reference/reference_row.h"
#include "reference/rotary.h"

namespace lssar {

using reference::RoundedGroup;
using reference::Rounding;
using reference::Row;
using reference::Terms;
using reference::UnitRows;

namespace {

// y += a x
void add_scaled(double* y, double a, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// How many keys query i sees.
int64_t seen_keys(const Problem& problem, const Sizes& sizes, int64_t i) {
  return visible_keys(problem, sizes.seq_q, sizes.seq_k, i).count();
}

// Squared norms for the error rule.
struct ErrorSquares {
  double floor_dq = 0, floor_dk = 0;
  std::vector<double> sinks, absolute_sinks;  // of each query head: a plain sum, not squared
  double sink_terms = 0;
  reference::LossSquares lost;
};

// One (batch, kv head) and the query heads that read it. Pointers of outputs that are not computed
// are null.
struct Group {
  const Problem& problem;
  const Sizes& sizes;
  const reference::ScoreFunctions& functions;
  const double *q, *k, *v, *grad_o;
  double *o, *dq, *dk, *dv;
  int64_t query_heads;
  const double* sink;  // of the query heads
  const double* alibi_slopes;
  Rounding rounding;
  std::atomic<int64_t>* scores_done;
};

// Forward and backward of one row. Writes o and dq_hat, and adds to dk_hat and dv.
void attend_row(const Group& group, const UnitRows& q, const UnitRows& k, int64_t head, int64_t i,
                std::vector<double>& dk_hat, std::vector<double>& absolute_dk_hat,
                std::optional<RoundedGroup>& rounded, ErrorSquares& errors) {
  const int64_t d = q.dim, dv = group.problem.head_dim_v;
  const int64_t query = head * group.sizes.seq_q + i;
  const double sink =
      group.sink == nullptr ? -std::numeric_limits<double>::infinity() : group.sink[head];
  const double slope = group.alibi_slopes == nullptr ? 0 : group.alibi_slopes[head];
  const Row row = reference::forward_row(group.problem, group.functions, group.sizes, q, k, i, sink,
                                         slope, group.rounding);
  if (!row.has_output) return;
  double* o = group.o + query * dv;
  for (int64_t j = 0; j < row.length; ++j)
    add_scaled(o, row.weight[j], group.v + row.keys.key(j) * dv, dv);
  if (group.grad_o == nullptr) {
    if (rounded) rounded->add_row({row, i, o, nullptr, nullptr, {}}, q);
    return;
  }

  const double* g = group.grad_o + query * dv;
  const double delta = reference::dot(g, o, dv);
  std::vector<double> value_dot(row.length);  // D
  for (int64_t j = 0; j < row.length; ++j) {
    const int64_t key = row.keys.key(j);
    value_dot[j] = reference::dot(g, group.v + key * dv, dv);
    add_scaled(group.dv + key * dv, row.weight[j], g, dv);
  }
  double* dq = group.dq + query * d;
  reference::add_unit_gradients(
      reference::score_gradient(row, value_dot, delta, Terms::kSigned, &errors.sinks[head]),
      row.keys, q, k, i, Terms::kSigned, dq, dk_hat);
  reference::through_norm(q, i, dq);
  if (rounded) rounded->add_row({row, i, o, g, dq, value_dot}, q);

  std::vector<double> absolute_dq(d);
  const double sink_before = errors.absolute_sinks[head];
  reference::add_unit_gradients(reference::score_gradient(row, value_dot, delta, Terms::kAbsolute,
                                                          &errors.absolute_sinks[head]),
                                row.keys, q, k, i, Terms::kAbsolute, absolute_dq.data(),
                                absolute_dk_hat);
  const double sink_term = errors.absolute_sinks[head] - sink_before;
  errors.sink_terms += sink_term * sink_term;
  errors.floor_dq += reference::absolute_through_norm(q, i, absolute_dq.data());
}

ErrorSquares attend_group(const Group& group) {
  const int64_t d = group.problem.head_dim, seq_q = group.sizes.seq_q, seq_k = group.sizes.seq_k;
  const bool backward = group.grad_o != nullptr;
  const bool qk_norm = group.problem.score.qk_norm;
  const UnitRows k = reference::unit_rows(group.k, seq_k, d, qk_norm);
  std::vector<double> dk_hat(backward ? seq_k * d : 0);
  std::optional<RoundedGroup> rounded;  // for LSSA and LSSAR only, whose roundings it models
  if (group.problem.score == ScoreFunction()) rounded.emplace(group.problem, k, group.v, backward);
  ErrorSquares errors;
  errors.sinks.resize(group.query_heads);
  errors.absolute_sinks.resize(group.query_heads);
  for (int64_t head = 0; head < group.query_heads; ++head) {
    const UnitRows q = reference::unit_rows(group.q + head * seq_q * d, seq_q, d, qk_norm);
    std::vector<double> absolute_dk_hat(dk_hat.size());
    for (int64_t i = 0; i < seq_q; ++i) {
      attend_row(group, q, k, head, i, dk_hat, absolute_dk_hat, rounded, errors);
      if (group.scores_done != nullptr)
        *group.scores_done += seen_keys(group.problem, group.sizes, i);
    }
    for (int64_t j = 0; backward && j < seq_k; ++j) {
      errors.floor_dk += reference::absolute_through_norm(k, j, absolute_dk_hat.data() + j * d);
    }
  }
  for (int64_t j = 0; backward && j < seq_k; ++j)
    reference::through_norm(k, j, dk_hat.data() + j * d);
  if (backward) std::copy(dk_hat.begin(), dk_hat.end(), group.dk);
  if (rounded) errors.lost = rounded->finish(group.dk, group.dv);
  return errors;
}

Group make_group(const Problem& problem, const Sizes& sizes,
                 const reference::ScoreFunctions& functions, const ReferenceInputs& inputs,
                 ReferenceOutputs& outputs, int64_t index, Rounding rounding,
                 std::atomic<int64_t>* scores_done) {
  const int64_t query_heads = sizes.heads / sizes.kv_heads;
  const int64_t queries = index * query_heads * sizes.seq_q;
  const int64_t keys = index * sizes.seq_k;
  const int64_t d = problem.head_dim, dv = problem.head_dim_v;
  const bool backward = !inputs.grad_o.empty();
  const auto of_heads = [&](const std::vector<double>& values) {
    return values.empty() ? nullptr : values.data() + index % sizes.kv_heads * query_heads;
  };
  return {problem,
          sizes,
          functions,
          inputs.q.data() + queries * d,
          inputs.k.data() + keys * d,
          inputs.v.data() + keys * dv,
          backward ? inputs.grad_o.data() + queries * dv : nullptr,
          outputs.o.data() + queries * dv,
          backward ? outputs.dq.data() + queries * d : nullptr,
          backward ? outputs.dk.data() + keys * d : nullptr,
          backward ? outputs.dv.data() + keys * dv : nullptr,
          query_heads,
          of_heads(inputs.sink),
          of_heads(inputs.alibi_slopes),
          rounding,
          scores_done};
}

Status check_size(const char* field, int64_t value, int64_t least, int64_t fixed) {
  if (value < least) {
    return invalid_argument(
        fmt::format("sizes.{} = {}: allowed are whole numbers from {}", field, value, least));
  }
  if (fixed != 0 && value != fixed) {
    return invalid_argument(
        fmt::format("sizes.{} = {}: the problem fixes {}", field, value, fixed));
  }
  return {};
}

Status check_tensor(const char* name, size_t elements, int64_t batch, int64_t heads, int64_t rows,
                    int64_t dim) {
  int64_t expected = 0;
  const bool overflow = __builtin_mul_overflow(batch, heads, &expected) ||
                        __builtin_mul_overflow(expected, rows, &expected) ||
                        __builtin_mul_overflow(expected, dim, &expected);
  if (overflow || elements != static_cast<size_t>(expected)) {
    return invalid_argument(fmt::format("{} has {} elements: allowed are {} x {} x {} x {}", name,
                                        elements, batch, heads, rows, dim));
  }
  return {};
}

Status check_inputs(const Problem& problem, const Sizes& s, const ReferenceInputs& inputs) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  LSSAR_RETURN_IF_ERROR(check_size("batch", s.batch, 0, 0));
  LSSAR_RETURN_IF_ERROR(check_size("heads", s.heads, 1, 0));
  LSSAR_RETURN_IF_ERROR(check_size("kv_heads", s.kv_heads, 1, 0));
  LSSAR_RETURN_IF_ERROR(check_size("seq_q", s.seq_q, 0, built_in_seq_q(problem)));
  LSSAR_RETURN_IF_ERROR(check_size("seq_k", s.seq_k, 0, built_in_seq_k(problem)));
  if (s.heads % s.kv_heads != 0) {
    return invalid_argument(fmt::format("sizes.kv_heads = {}: allowed are divisors of heads = {}",
                                        s.kv_heads, s.heads));
  }
  const int64_t d = problem.head_dim, dv = problem.head_dim_v;
  LSSAR_RETURN_IF_ERROR(check_tensor("q", inputs.q.size(), s.batch, s.heads, s.seq_q, d));
  LSSAR_RETURN_IF_ERROR(check_tensor("k", inputs.k.size(), s.batch, s.kv_heads, s.seq_k, d));
  LSSAR_RETURN_IF_ERROR(check_tensor("v", inputs.v.size(), s.batch, s.kv_heads, s.seq_k, dv));
  const bool has_sink = problem.score.sink != Sink::kNone;
  LSSAR_RETURN_IF_ERROR(check_tensor("sink", inputs.sink.size(), 1, has_sink ? s.heads : 0, 1, 1));
  const bool has_alibi = problem.score.alibi != Alibi::kNone;
  LSSAR_RETURN_IF_ERROR(
      check_tensor("alibi_slopes", inputs.alibi_slopes.size(), 1, has_alibi ? s.heads : 0, 1, 1));
  if (problem.rotary_dim != 0 && s.seq_q > s.seq_k) {
    return invalid_argument(
        fmt::format("sizes.seq_q = {}: allowed with rotary_dim are 0 to {}", s.seq_q, s.seq_k));
  }
  const int64_t pairs = problem.rotary_dim / 2;
  LSSAR_RETURN_IF_ERROR(check_tensor("rotary_cos", inputs.rotary_cos.size(), 1, 1, s.seq_k, pairs));
  LSSAR_RETURN_IF_ERROR(check_tensor("rotary_sin", inputs.rotary_sin.size(), 1, 1, s.seq_k, pairs));
  if (inputs.grad_o.empty()) return {};
  return check_tensor("grad_o", inputs.grad_o.size(), s.batch, s.heads, s.seq_q, dv);
}

// Calls work(0) ... work(count - 1), each once, on one thread per core. kOutOfMemory if an
// allocation failed.
template <typename Work>
Status parallel_for(int64_t count, const Work& work) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> out_of_room{false};
  const auto run = [&] {
    try {
      for (int64_t i = next++; i < count; i = next++) work(i);
    } catch (const std::bad_alloc&) {
      out_of_room = true;
    }
  };
  {
    const int64_t cores = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
    std::vector<std::jthread> threads;
    try {
      for (int64_t t = 1; t < std::min(cores, count); ++t) threads.emplace_back(run);
    } catch (const std::system_error&) {
      // No more threads are available; the existing ones and this one do the work.
    }
    run();
  }
  return out_of_room ? out_of_memory("reference: no memory for a row of scores") : Status();
}

// Without queries grad_o is empty and does not tell forward from backward; the pass does.
bool wants_gradients(const Problem& problem, const Sizes& sizes, const ReferenceInputs& inputs) {
  if (!inputs.grad_o.empty()) return true;
  return problem.pass == Pass::kBackward && sizes.batch * sizes.seq_q == 0;
}

ReferenceOutputs zero_outputs(const Problem& problem, const Sizes& sizes,
                              const ReferenceInputs& inputs) {
  ReferenceOutputs outputs;
  outputs.o.resize(sizes.batch * sizes.heads * sizes.seq_q * problem.head_dim_v);
  if (wants_gradients(problem, sizes, inputs)) {
    outputs.dq.resize(inputs.q.size());
    outputs.dk.resize(inputs.k.size());
    outputs.dv.resize(inputs.v.size());
    outputs.dsink.resize(inputs.sink.size());
  }
  return outputs;
}

// Sums the sinks' gradients over the batch.
void add_sinks(const Sizes& sizes, const std::vector<ErrorSquares>& groups,
               ReferenceOutputs& outputs) {
  std::vector<double> absolute(outputs.dsink.size());
  for (size_t index = 0; index < groups.size() && !absolute.empty(); ++index) {
    const std::vector<double>& sinks = groups[index].sinks;
    const size_t first = index % sizes.kv_heads * sinks.size();
    for (size_t head = 0; head < sinks.size(); ++head) {
      outputs.dsink[first + head] += sinks[head];
      absolute[first + head] += groups[index].absolute_sinks[head];
    }
  }
  outputs.floor_norm_dsink =
      std::sqrt(reference::dot(absolute.data(), absolute.data(), absolute.size()));
}

Result<ReferenceOutputs> attend(const Problem& problem, const Sizes& sizes,
                                const ReferenceInputs& inputs, Rounding rounding,
                                std::atomic<int64_t>* scores_done) {
  ReferenceOutputs outputs = zero_outputs(problem, sizes, inputs);
  const reference::ScoreFunctions functions(problem.score);
  std::vector<ErrorSquares> errors(sizes.batch * sizes.kv_heads);
  LSSAR_RETURN_IF_ERROR(parallel_for(errors.size(), [&](int64_t index) {
    errors[index] = attend_group(
        make_group(problem, sizes, functions, inputs, outputs, index, rounding, scores_done));
  }));
  add_sinks(sizes, errors, outputs);
  ErrorSquares total;
  for (const ErrorSquares& part : errors) {
    total.floor_dq += part.floor_dq;
    total.floor_dk += part.floor_dk;
    total.sink_terms += part.sink_terms;
    total.lost.o += part.lost.o;
    total.lost.dq += part.lost.dq;
    total.lost.dk += part.lost.dk;
    total.lost.dv += part.lost.dv;
  }
  outputs.floor_norm_dq = std::sqrt(total.floor_dq);
  outputs.floor_norm_dk = std::sqrt(total.floor_dk);
  outputs.row_norm_dsink = std::sqrt(total.sink_terms);
  outputs.ideal_error_o = std::sqrt(total.lost.o);
  outputs.ideal_error_dq = std::sqrt(total.lost.dq);
  outputs.ideal_error_dk = std::sqrt(total.lost.dk);
  outputs.ideal_error_dv = std::sqrt(total.lost.dv);
  return outputs;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

// Adds what differs between `exact` and `rounded` to the error of an ideal kernel.
void add_loss(const ReferenceOutputs& rounded, ReferenceOutputs& exact) {
  // NOTE: not hypot: it alone would make the library need glibc 2.35.
  const auto add = [](double& error, double lost) {
    error = std::sqrt(error * error + lost * lost);
  };
  add(exact.ideal_error_o, distance(exact.o, rounded.o));
  add(exact.ideal_error_dq, distance(exact.dq, rounded.dq));
  add(exact.ideal_error_dk, distance(exact.dk, rounded.dk));
  add(exact.ideal_error_dv, distance(exact.dv, rounded.dv));
}

// Kernels keep rotated q and k in the problem's dtype. In fp32 what that changes is far below the
// other errors.
Status add_rotation_loss(const Problem& problem, const Sizes& sizes, ReferenceInputs rotated,
                         ReferenceOutputs& exact) {
  if (problem.dtype == DType::kFp32) return {};
  for (std::vector<double>* x : {&rotated.q, &rotated.k})
    for (double& value : *x) value = round_to(problem.dtype, value);
  LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs rounded,
                         attend(problem, sizes, rotated, Rounding::kNone, nullptr));
  add_loss(rounded, exact);
  exact.rotation_error_dsink = distance(exact.dsink, rounded.dsink);
  return {};
}

// Where N P - b or psi cancels, the roundings of scores and activations in float32 become large
// errors of a row. For LSSA and LSSAR RoundedGroup counts them. In 16 bits the weights err more.
bool loses_by_second_stage(const Problem& problem) {
  return problem.dtype == DType::kFp32 && !(problem.score == ScoreFunction()) &&
         (problem.p != 0 || problem.score.psi.expression);
}

Result<ReferenceOutputs> attend_with_loss(const Problem& problem, const Sizes& sizes,
                                          const ReferenceInputs& inputs,
                                          std::atomic<int64_t>* scores_done) {
  LSSAR_ASSIGN_OR_RETURN(ReferenceOutputs outputs,
                         attend(problem, sizes, inputs, Rounding::kNone, scores_done));
  if (!loses_by_second_stage(problem)) return outputs;
  LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs rounded,
                         attend(problem, sizes, inputs, Rounding::kFloat32, nullptr));
  add_loss(rounded, outputs);
  return outputs;
}

// Attention of rotated q and k, whose gradients are rotated back.
Result<ReferenceOutputs> attend_rotated(const Problem& problem, const Sizes& sizes,
                                        ReferenceInputs inputs, std::atomic<int64_t>* scores_done) {
  const auto rotate_q = [&](std::vector<double>& x, bool back) {
    rotate_rows(problem, inputs.rotary_cos, inputs.rotary_sin, sizes.seq_q,
                sizes.seq_k - sizes.seq_q, back, x);
  };
  const auto rotate_k = [&](std::vector<double>& x, bool back) {
    rotate_rows(problem, inputs.rotary_cos, inputs.rotary_sin, sizes.seq_k, 0, back, x);
  };
  rotate_q(inputs.q, false);
  rotate_k(inputs.k, false);
  LSSAR_ASSIGN_OR_RETURN(ReferenceOutputs outputs,
                         attend_with_loss(problem, sizes, inputs, scores_done));
  LSSAR_RETURN_IF_ERROR(add_rotation_loss(problem, sizes, inputs, outputs));
  rotate_q(outputs.dq, true);
  rotate_k(outputs.dk, true);
  return outputs;
}

}  // namespace

Result<ReferenceOutputs> reference_attention(const Problem& problem, const Sizes& sizes,
                                             const ReferenceInputs& inputs,
                                             std::atomic<int64_t>* scores_done) {
  LSSAR_RETURN_IF_ERROR(check_inputs(problem, sizes, inputs));
  try {
    if (problem.rotary_dim != 0) return attend_rotated(problem, sizes, inputs, scores_done);
    return attend_with_loss(problem, sizes, inputs, scores_done);
  } catch (const std::bad_alloc&) {
    return out_of_memory("reference: no memory for the outputs");
  }
}

int64_t reference_scores(const Problem& problem, const Sizes& sizes) {
  int64_t of_head = 0;
  for (int64_t i = 0; i < sizes.seq_q; ++i) of_head += seen_keys(problem, sizes, i);
  return sizes.batch * sizes.heads * of_head;
}

}  // namespace lssar
