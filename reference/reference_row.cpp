#include "reference/reference_row.h"

#include <algorithm>
#include <cmath>

namespace lssar::reference {

namespace {

constexpr double kZeroNorm = 1e-12;     // a shorter vector has no direction
constexpr int64_t kNoOffsetLength = 3;  // rows of up to this many keys have b_i = 0

double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

// max(x, 0), NaN where x is NaN.
double positive_part(double x) { return x <= 0 ? 0.0 : x; }

// N_i: the keys a row sees are the first N_i.
int64_t unmasked_keys(const Problem& problem, const Sizes& sizes, int64_t i) {
  if (!problem.causal) return sizes.seq_k;
  return std::clamp<int64_t>(i + 1 + sizes.seq_k - sizes.seq_q, 0, sizes.seq_k);
}

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
  const double offset = row_offset(problem, row.length);
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

double minus(double a, double b, Terms terms) {
  return terms == Terms::kSigned ? a - b : std::abs(a) + std::abs(b);
}

double term(double a, Terms terms) { return terms == Terms::kSigned ? a : std::abs(a); }

}  // namespace

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double dot(const double* a, const double* b, int64_t n) {
  // Four sums: one would wait for each addition.
  double sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

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

double row_offset(const Problem& problem, int64_t length) {
  return length <= kNoOffsetLength ? 0.0 : problem.offset;
}

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

double score_gradient_at(const Problem& problem, const Row& row, int64_t j, double d, double delta,
                         double epsilon) {
  const double prob_gradient =
      problem.p == 0 ? d : static_cast<double>(row.length) * row.weight_slope[j] * (d - delta);
  return row.scale * (prob_gradient - epsilon) / row.sum * sigmoid(row.score[j]);
}

void add_unit_gradients(const std::vector<double>& score_grad, const UnitRows& q, const UnitRows& k,
                        int64_t i, Terms terms, double* dq_hat, std::vector<double>& dk_hat) {
  for (int64_t j = 0; j < static_cast<int64_t>(score_grad.size()); ++j) {
    for (int64_t c = 0; c < q.dim; ++c) {
      dq_hat[c] += score_grad[j] * term(k.row(j)[c], terms);
      dk_hat[j * q.dim + c] += score_grad[j] * term(q.row(i)[c], terms);
    }
  }
}

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

double absolute_through_norm(const UnitRows& x, int64_t i, const double* gradient) {
  if (x.norm[i] <= kZeroNorm) return 0.0;
  return 4 * dot(gradient, gradient, x.dim) / (x.norm[i] * x.norm[i]);
}

}  // namespace lssar::reference
