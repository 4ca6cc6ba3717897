#include "codegen/reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace lssar {

namespace {

constexpr double kZeroNorm = 1e-12;     // a shorter vector has no direction
constexpr double kDeadRow = 0x1p-16;    // largest U of a row whose scores count as all equal
constexpr int64_t kNoOffsetLength = 3;  // rows of up to this many keys have b_i = 0

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

// max(x, 0), NaN where x is NaN.
double positive_part(double x) { return x <= 0 ? 0.0 : x; }

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += a x
void add_scaled(double* y, double a, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// The rows of one head of q or k: directions (0 where there is none) and lengths.
struct UnitRows {
  std::vector<double> unit, norm;
  int64_t dim = 0;

  const double* row(int64_t i) const { return unit.data() + i * dim; }
};

UnitRows unit_rows(const double* x, int64_t rows, int64_t dim) {
  UnitRows result{std::vector<double>(rows * dim), std::vector<double>(rows), dim};
  for (int64_t i = 0; i < rows; ++i) {
    const double norm = std::sqrt(dot(x + i * dim, x + i * dim, dim));
    result.norm[i] = norm;
    for (int64_t c = 0; c < dim; ++c) {
      result.unit[i * dim + c] = norm <= kZeroNorm ? 0.0 : x[i * dim + c] / norm;
    }
  }
  return result;
}

// N_i: the keys a row sees are the first N_i.
int64_t unmasked_keys(const Problem& problem, const Sizes& sizes, int64_t i) {
  if (!problem.causal) return sizes.seq_k;
  return std::clamp<int64_t>(i + 1 + sizes.seq_k - sizes.seq_q, 0, sizes.seq_k);
}

// One row of the attention, from its scores to its weights.
struct Row {
  int64_t length = 0;                       // N_i
  double scale = 0;                         // c_i
  double sum = 0;                           // R_i
  bool has_output = true;                   // false: N_i = 0, or a dead row
  std::vector<double> score, prob, weight;  // S, P, M
  std::vector<double> weight_slope;         // p U^(p-1) / Z
};

// S and c: the scores of row i.
void score_row(const UnitRows& q, const UnitRows& k, int64_t i, Row& row) {
  row.scale = std::log(static_cast<double>(q.dim)) * std::log(static_cast<double>(row.length));
  row.score.resize(row.length);
  for (int64_t j = 0; j < row.length; ++j) {
    row.score[j] = row.scale * dot(q.row(i), k.row(j), q.dim);
  }
}

// P = A / R: stage 1.
void normalise(Row& row) {
  row.prob.resize(row.length);
  row.sum = 0;
  for (int64_t j = 0; j < row.length; ++j) row.sum += row.prob[j] = softplus(row.score[j]);
  for (double& p : row.prob) p /= row.sum;
}

// M = W / Z and slope = p U^(p-1) / Z: stage 2. Everything is computed from u = U / max U, which
// changes neither and cannot overflow.
void reweight(const Problem& problem, Row& row) {
  const double n = static_cast<double>(row.length);
  const double offset = row.length <= kNoOffsetLength ? 0.0 : problem.offset;
  std::vector<double> u(row.length);
  double largest = 0;
  for (int64_t j = 0; j < row.length; ++j) {
    u[j] = positive_part(n * row.prob[j] - offset);
    if (!(u[j] <= largest)) largest = u[j];  // a NaN stays
    if (std::isnan(largest)) break;
  }
  row.has_output = !(largest <= kDeadRow);
  if (!row.has_output) return;

  double sum = 0;
  row.weight.resize(row.length);
  row.weight_slope.resize(row.length);
  for (int64_t j = 0; j < row.length; ++j) {
    u[j] /= largest;
    row.weight[j] = std::pow(u[j], problem.p);
    sum += row.weight[j];
  }
  for (int64_t j = 0; j < row.length; ++j) {
    row.weight[j] /= sum;
    row.weight_slope[j] =
        u[j] <= 0 ? 0.0 : problem.p * std::pow(u[j], problem.p - 1) / (largest * sum);
  }
}

Row forward_row(const Problem& problem, const Sizes& sizes, const UnitRows& q, const UnitRows& k,
                int64_t i) {
  Row row;
  row.length = unmasked_keys(problem, sizes, i);
  row.has_output = row.length > 0;
  if (!row.has_output) return row;
  score_row(q, k, i, row);
  normalise(row);
  if (problem.p == 0) {
    row.weight = row.prob;
  } else {
    reweight(problem, row);
  }
  return row;
}

// Signed: the gradient. Absolute: the sum of the magnitudes of its terms, what rounding errors of
// the signed one are proportional to.
enum class Terms { kSigned, kAbsolute };

double minus(double a, double b, Terms terms) {
  return terms == Terms::kSigned ? a - b : std::abs(a) + std::abs(b);
}

double term(double a, Terms terms) { return terms == Terms::kSigned ? a : std::abs(a); }

// dS of a row, times c: what both dq_hat and dk_hat sum. `d` is D_ij = g_i . v_j, `delta` g_i .
// o_i.
std::vector<double> score_gradient(const Problem& problem, const Row& row,
                                   const std::vector<double>& d, double delta, Terms terms) {
  const double n = static_cast<double>(row.length);
  std::vector<double> gradient(row.length);  // dP, then c dS
  double mean = 0;                           // epsilon_i = sum_j P_ij dP_ij
  for (int64_t j = 0; j < row.length; ++j) {
    gradient[j] =
        problem.p == 0 ? term(d[j], terms) : n * row.weight_slope[j] * minus(d[j], delta, terms);
    mean += row.prob[j] * gradient[j];
  }
  for (int64_t j = 0; j < row.length; ++j) {
    gradient[j] = row.scale * minus(gradient[j], mean, terms) / row.sum * sigmoid(row.score[j]);
  }
  return gradient;
}

// Adds one row's part of dq_hat and dk_hat.
void add_unit_gradients(const std::vector<double>& score_grad, const UnitRows& q, const UnitRows& k,
                        int64_t i, Terms terms, double* dq_hat, std::vector<double>& dk_hat) {
  for (int64_t j = 0; j < static_cast<int64_t>(score_grad.size()); ++j) {
    for (int64_t c = 0; c < q.dim; ++c) {
      dq_hat[c] += score_grad[j] * term(k.row(j)[c], terms);
      dk_hat[j * q.dim + c] += score_grad[j] * term(q.row(i)[c], terms);
    }
  }
}

// dx = (dx_hat - x_hat (x_hat . dx_hat)) / |x|, in place.
void through_norm(const UnitRows& x, int64_t i, double* gradient) {
  if (x.norm[i] <= kZeroNorm) {
    std::fill_n(gradient, x.dim, 0.0);
    return;
  }
  const double along = dot(x.row(i), gradient, x.dim);
  for (int64_t c = 0; c < x.dim; ++c) {
    gradient[c] = (gradient[c] - x.row(i)[c] * along) / x.norm[i];
  }
}

// Squared norm of the absolute gradient behind the norm: the projection's two terms are at most
// |dx_hat| each.
double absolute_through_norm(const UnitRows& x, int64_t i, const double* gradient) {
  if (x.norm[i] <= kZeroNorm) return 0.0;
  return 4 * dot(gradient, gradient, x.dim) / (x.norm[i] * x.norm[i]);
}

struct FloorSquares {
  double dq = 0, dk = 0;
};

// One (batch, kv head) and the query heads that read it. Output pointers are null where there is
// nothing to compute.
struct Group {
  const Problem& problem;
  const Sizes& sizes;
  const double *q, *k, *v, *grad_o;
  double *o, *dq, *dk, *dv;
  int64_t query_heads;
};

// Forward and backward of one row: writes o and dq_hat, adds to dk_hat and dv.
void attend_row(const Group& group, const UnitRows& q, const UnitRows& k, int64_t head, int64_t i,
                std::vector<double>& dk_hat, std::vector<double>& absolute_dk_hat,
                FloorSquares& floors) {
  const int64_t d = q.dim, dv = group.problem.head_dim_v;
  const int64_t query = head * group.sizes.seq_q + i;
  const Row row = forward_row(group.problem, group.sizes, q, k, i);
  if (!row.has_output) return;
  double* o = group.o + query * dv;
  for (int64_t j = 0; j < row.length; ++j) add_scaled(o, row.weight[j], group.v + j * dv, dv);
  if (group.grad_o == nullptr) return;

  const double* g = group.grad_o + query * dv;
  const double delta = dot(g, o, dv);
  std::vector<double> value_dot(row.length);  // D
  for (int64_t j = 0; j < row.length; ++j) {
    value_dot[j] = dot(g, group.v + j * dv, dv);
    add_scaled(group.dv + j * dv, row.weight[j], g, dv);
  }
  double* dq = group.dq + query * d;
  add_unit_gradients(score_gradient(group.problem, row, value_dot, delta, Terms::kSigned), q, k, i,
                     Terms::kSigned, dq, dk_hat);
  through_norm(q, i, dq);

  std::vector<double> absolute_dq(d);
  add_unit_gradients(score_gradient(group.problem, row, value_dot, delta, Terms::kAbsolute), q, k,
                     i, Terms::kAbsolute, absolute_dq.data(), absolute_dk_hat);
  floors.dq += absolute_through_norm(q, i, absolute_dq.data());
}

FloorSquares attend_group(const Group& group) {
  const int64_t d = group.problem.head_dim, seq_q = group.sizes.seq_q, seq_k = group.sizes.seq_k;
  const bool backward = group.grad_o != nullptr;
  const UnitRows k = unit_rows(group.k, seq_k, d);
  std::vector<double> dk_hat(backward ? seq_k * d : 0);
  FloorSquares floors;
  for (int64_t head = 0; head < group.query_heads; ++head) {
    const UnitRows q = unit_rows(group.q + head * seq_q * d, seq_q, d);
    std::vector<double> absolute_dk_hat(dk_hat.size());
    for (int64_t i = 0; i < seq_q; ++i) {
      attend_row(group, q, k, head, i, dk_hat, absolute_dk_hat, floors);
    }
    for (int64_t j = 0; backward && j < seq_k; ++j) {
      floors.dk += absolute_through_norm(k, j, absolute_dk_hat.data() + j * d);
    }
  }
  for (int64_t j = 0; backward && j < seq_k; ++j) through_norm(k, j, dk_hat.data() + j * d);
  if (backward) std::copy(dk_hat.begin(), dk_hat.end(), group.dk);
  return floors;
}

Group make_group(const Problem& problem, const Sizes& sizes, const ReferenceInputs& inputs,
                 ReferenceOutputs& outputs, int64_t index) {
  const int64_t query_heads = sizes.heads / sizes.kv_heads;
  const int64_t queries = index * query_heads * sizes.seq_q;
  const int64_t keys = index * sizes.seq_k;
  const int64_t d = problem.head_dim, dv = problem.head_dim_v;
  const bool backward = !inputs.grad_o.empty();
  return {problem,
          sizes,
          inputs.q.data() + queries * d,
          inputs.k.data() + keys * d,
          inputs.v.data() + keys * dv,
          backward ? inputs.grad_o.data() + queries * dv : nullptr,
          outputs.o.data() + queries * dv,
          backward ? outputs.dq.data() + queries * d : nullptr,
          backward ? outputs.dk.data() + keys * d : nullptr,
          backward ? outputs.dv.data() + keys * dv : nullptr,
          query_heads};
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
  LSSAR_RETURN_IF_ERROR(check_size("seq_q", s.seq_q, 0, problem.seq_q));
  LSSAR_RETURN_IF_ERROR(check_size("seq_k", s.seq_k, 0, problem.seq_k));
  if (s.heads % s.kv_heads != 0) {
    return invalid_argument(fmt::format("sizes.kv_heads = {}: allowed are divisors of heads = {}",
                                        s.kv_heads, s.heads));
  }
  const int64_t d = problem.head_dim, dv = problem.head_dim_v;
  LSSAR_RETURN_IF_ERROR(check_tensor("q", inputs.q.size(), s.batch, s.heads, s.seq_q, d));
  LSSAR_RETURN_IF_ERROR(check_tensor("k", inputs.k.size(), s.batch, s.kv_heads, s.seq_k, d));
  LSSAR_RETURN_IF_ERROR(check_tensor("v", inputs.v.size(), s.batch, s.kv_heads, s.seq_k, dv));
  if (inputs.grad_o.empty()) return {};
  return check_tensor("grad_o", inputs.grad_o.size(), s.batch, s.heads, s.seq_q, dv);
}

// Calls work(0) ... work(count - 1), each once, on as many threads as there are cores.
// kOutOfMemory where an allocation failed.
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
      // No more threads to be had: those there are, and this one, do the work.
    }
    run();
  }
  return out_of_room ? out_of_memory("reference: no memory for a row of scores") : Status();
}

// No queries make an empty grad_o, which then does not say which pass is meant.
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
  }
  return outputs;
}

Result<ReferenceOutputs> attend(const Problem& problem, const Sizes& sizes,
                                const ReferenceInputs& inputs) {
  ReferenceOutputs outputs = zero_outputs(problem, sizes, inputs);
  std::vector<FloorSquares> floors(sizes.batch * sizes.kv_heads);
  LSSAR_RETURN_IF_ERROR(parallel_for(floors.size(), [&](int64_t index) {
    floors[index] = attend_group(make_group(problem, sizes, inputs, outputs, index));
  }));
  FloorSquares total;
  for (const FloorSquares& part : floors) {
    total.dq += part.dq;
    total.dk += part.dk;
  }
  outputs.floor_norm_dq = std::sqrt(total.dq);
  outputs.floor_norm_dk = std::sqrt(total.dk);
  return outputs;
}

}  // namespace

Result<ReferenceOutputs> reference_attention(const Problem& problem, const Sizes& sizes,
                                             const ReferenceInputs& inputs) {
  LSSAR_RETURN_IF_ERROR(check_inputs(problem, sizes, inputs));
  try {
    return attend(problem, sizes, inputs);
  } catch (const std::bad_alloc&) {
    return out_of_memory("reference: no memory for the outputs");
  }
}

}  // namespace lssar
