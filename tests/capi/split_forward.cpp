#include "tests/capi/split_forward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "codegen/pass_needs.h"
#include "reference/numerics.h"

namespace lssar {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Memory of a call's workspace, aligned as it must be.
Result<std::vector<double>> workspace_of(const lssar_plan* plan, lssar_call& call) {
  LSSAR_RETURN_IF_ERROR(
      to_status(lssar_plan_workspace_size(plan, &call.sizes, &call.workspace_bytes)));
  return std::vector<double>(call.workspace_bytes / sizeof(double) + 2);
}

}  // namespace

std::vector<Part> cut(int64_t length, std::vector<int64_t> at) {
  at.push_back(length);
  std::vector<Part> parts;
  int64_t first = 0;
  for (const int64_t end : at) {
    parts.push_back({first, end - first});
    first = end;
  }
  return parts;
}

SplitForward::SplitForward(lssar_context* context, const Problem& problem, const Sizes& sizes,
                           const CapiInputs& inputs)
    : context_(context),
      problem_(problem),
      sizes_(sizes),
      q_(pack(problem.dtype, inputs.q)),
      k_(pack(problem.dtype, inputs.k)),
      v_(pack(problem.dtype, inputs.v)),
      sink_(inputs.sink),
      slopes_(inputs.alibi_slopes) {
  problem_.seq_q = problem_.seq_k = 0;
}

Status SplitForward::prepare(const std::string& schedule) {
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = schedule.c_str();
  const lssar_problem c =
      to_c(problem_, LSSAR_PASS_ROW_SUMS | LSSAR_PASS_WEIGHTED_SUM, problem_.alignment);
  lssar_plan* plan = nullptr;
  LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_create(context_, &c, &options, &plan)));
  plan_.reset(plan);
  return to_status(lssar_plan_prepare(plan));
}

Result<Merged> SplitForward::run(const std::vector<Part>& queries, const std::vector<Part>& keys) {
  Merged all;
  all.o.assign(slices() * sizes_.seq_q * problem_.head_dim_v, kNaN);
  all.stats.assign(4 * slices() * sizes_.seq_q, kNaN);
  for (const Part& part : queries) LSSAR_RETURN_IF_ERROR(run_queries(part, keys, &all));
  return all;
}

// Row `first` of a contiguous tensor, with the whole tensor's strides.
lssar_tensor SplitForward::rows_from(std::vector<std::byte>& bytes, int64_t heads, int64_t length,
                                     int64_t dim, int64_t first) const {
  return {bytes.data() + first * dim * dtype_bytes(problem_.dtype),
          {heads * length * dim, length * dim, dim}};
}

lssar_call SplitForward::call_of(const Part& queries, const Part& keys) {
  lssar_call call = {};
  call.struct_size = sizeof(call);
  call.sizes = {sizes_.batch, sizes_.heads, sizes_.kv_heads, queries.count, keys.count};
  call.range = {keys.first, sizes_.seq_k, queries.first, sizes_.seq_q};
  call.q = rows_from(q_, sizes_.heads, sizes_.seq_q, problem_.head_dim, queries.first);
  call.k = rows_from(k_, sizes_.kv_heads, sizes_.seq_k, problem_.head_dim, keys.first);
  call.v = rows_from(v_, sizes_.kv_heads, sizes_.seq_k, problem_.head_dim_v, keys.first);
  call.alibi_slopes = slopes_.data();
  return call;
}

template <typename Execute>
Status SplitForward::execute(const Execute& function, lssar_call call) {
  LSSAR_ASSIGN_OR_RETURN(std::vector<double> workspace, workspace_of(plan_.get(), call));
  call.workspace = workspace.data();
  return to_status(function(plan_.get(), &call));
}

// Planes 1 to 3 are maximised. Plane 0 is summed, in the unit of the largest plane 2. LSSAR's own
// kernels write planes 0 and 3 only; zeros in the others make the same merge right for them.
Result<std::vector<float>> SplitForward::merged_sums(const Part& queries,
                                                     const std::vector<Part>& keys) {
  const size_t rows = slices() * queries.count;
  std::vector<std::vector<float>> parts;
  std::vector<float> merged(4 * rows, -kInfinity);
  for (const Part& part : keys) {
    lssar_call call = call_of(queries, part);
    std::vector<float>& stats = parts.emplace_back(4 * rows, kNaN);
    if (!is_general(problem_)) std::fill_n(stats.begin() + rows, 2 * rows, 0.0f);
    call.row_stats = stats.data();
    LSSAR_RETURN_IF_ERROR(execute(lssar_execute_row_sums, call));
    for (size_t i = rows; i < 4 * rows; ++i) merged[i] = std::max(merged[i], stats[i]);
  }
  for (size_t i = 0; i < rows; ++i) {
    merged[i] = 0.0f;
    for (const std::vector<float>& stats : parts) {
      const float unit = std::exp2(stats[2 * rows + i] - merged[2 * rows + i]);
      merged[i] += stats[i] == 0.0f ? 0.0f : stats[i] * unit;
    }
  }
  return merged;
}

Status SplitForward::run_queries(const Part& queries, const std::vector<Part>& keys, Merged* all) {
  const size_t rows = slices() * queries.count;
  const size_t columns = rows * problem_.head_dim_v;
  LSSAR_ASSIGN_OR_RETURN(const std::vector<float> sums, merged_sums(queries, keys));
  std::vector<float> merged = sums, zs(rows, 0.0f), o(columns, 0.0f);
  for (const Part& part : keys) {
    lssar_call call = call_of(queries, part);
    std::vector<float> stats = sums, partial(columns, kNaN);
    call.row_stats = stats.data();
    call.partial_o = partial.data();
    call.sink = sink_.data();
    LSSAR_RETURN_IF_ERROR(execute(lssar_execute_weighted_sum, call));
    for (size_t i = 0; i < rows; ++i) zs[i] += stats[2 * rows + i];
    for (size_t i = 0; i < columns; ++i) o[i] += partial[i];
    merged = stats;
  }
  std::copy(zs.begin(), zs.end(), merged.begin() + 2 * rows);
  place(queries, merged, o, all);
  return {};
}

void SplitForward::place(const Part& queries, const std::vector<float>& stats,
                         const std::vector<float>& o, Merged* all) const {
  const int64_t rows = slices() * queries.count, dim = problem_.head_dim_v;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t slice = i / queries.count;
    const int64_t row = slice * sizes_.seq_q + queries.first + i % queries.count;
    for (int64_t plane = 0; plane < 4; ++plane)
      all->stats[plane * slices() * sizes_.seq_q + row] = stats[plane * rows + i];
    const float zs = stats[2 * rows + i];
    for (int64_t c = 0; c < dim; ++c)
      all->o[row * dim + c] = zs == 0.0f ? 0.0f : o[i * dim + c] / zs;
  }
}

Result<CapiOutputs> backward_of(lssar_context* context, const Problem& problem, const Sizes& sizes,
                                const CapiInputs& inputs, const Merged& merged) {
  const lssar_problem c = to_c(problem, LSSAR_PASS_BACKWARD, problem.alignment);
  lssar_plan* made = nullptr;
  LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_create(context, &c, nullptr, &made)));
  const PlanPtr plan(made);
  LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_prepare(made)));

  std::vector<std::byte> q = pack(problem.dtype, inputs.q), k = pack(problem.dtype, inputs.k),
                         v = pack(problem.dtype, inputs.v), g = pack(problem.dtype, inputs.grad_o);
  std::vector<std::byte> dq = q, dk = k, dv = v;
  Merged saved = merged;
  std::vector<std::byte> o = pack(problem.dtype, merged.o);
  std::vector<float> rounding = unpack(problem.dtype, o);
  std::transform(merged.o.begin(), merged.o.end(), rounding.begin(), rounding.begin(),
                 std::minus<>());
  std::vector<std::byte> saved_o = pack(DType::kBf16, rounding);
  const auto tensor = [&](std::vector<std::byte>& bytes, int64_t heads, int64_t length,
                          int64_t dim) {
    return lssar_tensor{bytes.data(), {heads * length * dim, length * dim, dim}};
  };
  const int64_t d = problem.head_dim, d_v = problem.head_dim_v;
  lssar_call call = {};
  call.struct_size = sizeof(call);
  call.sizes = to_c(sizes);
  call.q = tensor(q, sizes.heads, sizes.seq_q, d);
  call.k = tensor(k, sizes.kv_heads, sizes.seq_k, d);
  call.v = tensor(v, sizes.kv_heads, sizes.seq_k, d_v);
  call.o = tensor(o, sizes.heads, sizes.seq_q, d_v);
  call.grad_o = tensor(g, sizes.heads, sizes.seq_q, d_v);
  call.grad_q = tensor(dq, sizes.heads, sizes.seq_q, d);
  call.grad_k = tensor(dk, sizes.kv_heads, sizes.seq_k, d);
  call.grad_v = tensor(dv, sizes.kv_heads, sizes.seq_k, d_v);
  call.saved_o = saved_o.data();
  call.saved_stats = saved.stats.data();
  std::vector<float> sink = inputs.sink, grad_sink(sink.size());
  call.sink = sink.data();
  call.grad_sink = grad_sink.data();
  call.alibi_slopes = inputs.alibi_slopes.data();
  LSSAR_ASSIGN_OR_RETURN(std::vector<double> workspace, workspace_of(made, call));
  call.workspace = workspace.data();
  LSSAR_RETURN_IF_ERROR(to_status(lssar_execute_backward(made, &call)));

  CapiOutputs gradients;
  gradients.grad_q = unpack(problem.dtype, dq);
  gradients.grad_k = unpack(problem.dtype, dk);
  gradients.grad_v = unpack(problem.dtype, dv);
  gradients.grad_sink = grad_sink;
  return gradients;
}

}  // namespace lssar
