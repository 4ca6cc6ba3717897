#include "reference/reference_rounded.h"

#include <algorithm>
#include <cmath>

#include "reference/numerics.h"

namespace lssar::reference {

namespace {

constexpr double kJumpRoundings = 8;    // of a score and its activation, in units of roundoff
// Kernels split dS' of rows of at most this many keys into two parts, so it is not rounded for dq.
constexpr int64_t kTwoPartsLength = 3;

int significand_bits(DType dtype) {
  return dtype == DType::kBf16 ? 8 : dtype == DType::kFp16 ? 11 : 24;
}

// The nearest number with that many significant bits and any exponent, because kernels scale
// numbers that would leave the range.
double keep_bits(double x, int bits) {
  const double shifted = x * (std::ldexp(1.0, 53 - bits) + 1);
  const double high = shifted - (shifted - x);
  return std::isfinite(high) ? high : x;
}

double to_float(double x) { return static_cast<float>(x); }

// A dot product summed in float32, one product after the other.
double float_dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = to_float(sum + a[i] * b[i]);
  return sum;
}

void add_scaled(double* y, double a, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

RoundedGroup::RoundedGroup(const Problem& problem, const UnitRows& k, const double* v,
                           bool backward)
    : problem_(problem),
      k_(k),
      v_(v),
      dk_hat_(backward ? k.unit.size() : 0),
      dv_(backward ? k.norm.size() * problem.head_dim_v : 0) {}

double RoundedGroup::round(double x) const {
  return keep_bits(x, significand_bits(problem_.dtype));
}

double RoundedGroup::stored(double x) const {
  const double y = round_to(problem_.dtype, x);
  return std::isfinite(y) ? y : round(x);
}

double RoundedGroup::rounded_score(const UnitRows& q, int64_t query, int64_t key, double exact,
                                   double scale) const {
  if (problem_.dtype != DType::kFp32 || exact == 0) return to_float(exact);
  const double sum = float_dot(q.row(query), k_.row(key), q.dim);
  const double lengths = q.norm[query] * k_.norm[key];
  const double factor = to_float(to_float(scale / q.norm[query]) * to_float(1 / k_.norm[key]));
  return to_float(sum * (factor * lengths));
}

// The weights are divided by the largest one, as in kernels.
Row RoundedGroup::rounded_row(const Row& exact, const UnitRows& q, int64_t query) const {
  Row row;
  row.keys = exact.keys;
  row.length = exact.length;
  row.scale = exact.scale;
  row.score.resize(row.length);
  row.prob.resize(row.length);
  double sum = 0;
  for (int64_t j = 0; j < row.length; ++j) {
    row.score[j] = rounded_score(q, query, row.keys.key(j), exact.score[j], row.scale);
    sum += row.prob[j] = to_float(softplus(row.score[j]));
  }
  row.sum = sum * (1 + kFloatUnit);
  row.prob_slope = exact.prob_slope;
  row.sum_slope = exact.sum_slope;
  row.weight_sum_slope = exact.weight_sum_slope;
  weigh(row);
  for (double& x : row.prob) x /= row.sum;
  return row;
}

// Computes the weights. row.prob still holds activations, and row.sum is their sum.
void RoundedGroup::weigh(Row& row) const {
  const double largest = *std::max_element(row.prob.begin(), row.prob.end());
  row.weight.resize(row.length);
  if (problem_.p == 0) {
    for (int64_t j = 0; j < row.length; ++j) row.weight[j] = row.prob[j] / largest;
    row.weight_slope.assign(row.length, 1.0);
    return;
  }
  const double n = static_cast<double>(row.length);
  const double m = to_float(to_float(n * largest / row.sum) - row_offset(problem_, row.length));
  row.has_output = !(m <= kDeadRow);
  if (!row.has_output) return;
  row.weight_slope.resize(row.length);
  for (int64_t j = 0; j < row.length; ++j) {
    const double excess = 1 - (largest - row.prob[j]) * n / row.sum / m;
    const double u = std::max(excess, 0.0);
    row.weight[j] = std::pow(u, problem_.p);
    row.weight_slope[j] = u <= 0 ? 0.0 : n * problem_.p * std::pow(u, problem_.p - 1) / m;
    // With p = 1 gradients jump at 0. If rounding decides the side, assume the wrong one.
    const double unsure = kJumpRoundings * kFloatUnit * (1 + std::abs(row.score[j])) *
                          (1 + row_offset(problem_, row.length) / m);
    if (problem_.p == 1 && std::abs(excess) <= unsure) row.weight_slope[j] = u <= 0 ? n / m : 0;
  }
}

// Computes o before its rounding to the dtype. Divides weights and slopes by the sum of the rounded
// weights.
std::vector<double> RoundedGroup::rounded_output(Row& row) const {
  const int64_t dim = problem_.head_dim_v;
  std::vector<double> o(dim);
  double sum = 0;
  for (int64_t j = 0; j < row.length; ++j) {
    const double weight = round(row.weight[j]);
    sum += weight;
    add_scaled(o.data(), weight, v_ + row.keys.key(j) * dim, dim);
  }
  for (double& x : o) x = to_float(x / sum);
  for (double& x : row.weight) x /= sum;
  for (double& x : row.weight_slope)
    if (problem_.p != 0) x /= sum;
  return o;
}

// Epsilon from X as the forward saves it: computed from rounded slopes, then rounded itself.
double RoundedGroup::epsilon(const Row& row, const std::vector<double>& o, const ExactRow& exact,
                             double delta) const {
  if (problem_.p == 0) return delta;
  const double offset = row_offset(problem_, row.length);
  if (offset == 0) return 0;
  const int64_t dim = problem_.head_dim_v;
  const double largest = *std::max_element(row.weight_slope.begin(), row.weight_slope.end());
  std::vector<double> x(dim);
  double sum = 0;
  for (int64_t j = 0; j < row.length; ++j) {
    const double slope = round(row.weight_slope[j] / largest);
    sum += slope;
    add_scaled(x.data(), slope, v_ + row.keys.key(j) * dim, dim);
  }
  const int bits = problem_.dtype == DType::kFp32 ? 24 : significand_bits(DType::kBf16);
  const double factor = largest / static_cast<double>(row.length);  // X lacks the factor N
  for (int64_t c = 0; c < dim; ++c) x[c] = keep_bits((x[c] - sum * o[c]) * factor, bits);
  return offset * dot(exact.grad_o, x.data(), dim);
}

void RoundedGroup::add_gradients(const Row& row, const std::vector<double>& o,
                                 const ExactRow& exact, const UnitRows& q) {
  const int64_t dim_k = q.dim, dim = problem_.head_dim_v;
  const double delta = dot(exact.grad_o, o.data(), dim);
  const double mean = epsilon(row, o, exact, delta);
  std::vector<double> dq(dim_k);
  for (int64_t j = 0; j < row.length; ++j) {
    const int64_t key = row.keys.key(j);
    add_scaled(dv_.data() + key * dim, round(row.weight[j]), exact.grad_o, dim);
    const double d = problem_.dtype == DType::kFp32 ? float_dot(exact.grad_o, v_ + key * dim, dim)
                                                    : exact.value_dot[j];
    const double gradient = score_gradient_at(row, j, d, delta, mean);
    const double rounded = round(gradient);
    add_scaled(dq.data(), row.length <= kTwoPartsLength ? gradient : rounded, k_.row(key), dim_k);
    add_scaled(dk_hat_.data() + key * dim_k, rounded, q.row(exact.query), dim_k);
  }
  through_norm(q, exact.query, dq.data());
  for (int64_t c = 0; c < dim_k; ++c) {
    const double lost = stored(dq[c]) - exact.dq[c];
    lost_.dq += lost * lost;
  }
}

void RoundedGroup::add_row(const ExactRow& exact, const UnitRows& q) {
  Row row = rounded_row(exact.row, q, exact.query);
  std::vector<double> o(problem_.head_dim_v);
  if (row.has_output) o = rounded_output(row);
  for (int64_t c = 0; c < problem_.head_dim_v; ++c) {
    const double lost = stored(o[c]) - exact.o[c];
    lost_.o += lost * lost;
  }
  if (exact.grad_o != nullptr && row.has_output) add_gradients(row, o, exact, q);
}

LossSquares RoundedGroup::finish(const double* dk, const double* dv) {
  for (int64_t j = 0; j < static_cast<int64_t>(k_.norm.size()); ++j) {
    if (dk_hat_.empty()) break;
    through_norm(k_, j, dk_hat_.data() + j * k_.dim);
  }
  for (size_t i = 0; i < dk_hat_.size(); ++i) {
    const double lost = stored(dk_hat_[i]) - dk[i];
    lost_.dk += lost * lost;
  }
  for (size_t i = 0; i < dv_.size(); ++i) {
    const double lost = stored(dv_[i]) - dv[i];
    lost_.dv += lost * lost;
  }
  return lost_;
}

}  // namespace lssar::reference
