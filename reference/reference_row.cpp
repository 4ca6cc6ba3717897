#include "reference/reference_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "score/derivative.h"

namespace lssar::reference {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kZeroNorm = 1e-12;     // a shorter vector has no direction
constexpr int64_t kNoOffsetLength = 3;  // rows of up to this many keys have b_i = 0

double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

// A program for a function and its derivative by x, which share common parts.
Program with_derivative(const Expression& e) {
  const Expression both[] = {e, derivative(e, Variable::kX)};
  return Program(both);
}

ScoreFunctions::Value value_of(const Program& program, const Arguments& arguments) {
  thread_local std::vector<double> scratch;
  double results[2];
  program.evaluate(arguments, scratch, results);
  return {results[0], results[1]};
}

// max(x, 0), but NaN if x is NaN.
double positive_part(double x) { return x <= 0 ? 0.0 : x; }

// Infinity comes from q or k. The cap must not hide it.
double capped(double cap, double product) {
  if (cap == 0) return product;
  return std::isinf(product) ? kNan : cap * std::tanh(product / cap);
}

// Computes s, c and the scaled products: the scores and the scale of row i. `position`: that of the
// row among the keys.
std::vector<double> score_row(const ScoreFunction& score, const UnitRows& q, const UnitRows& k,
                              int64_t i, int64_t position, double alibi_slope, Row& row) {
  row.scale = scale_of(score.scale, q.dim, static_cast<double>(row.length));
  const double bias = bias_of(score.bias, static_cast<double>(row.length));
  std::vector<double> products(row.length);
  row.score.resize(row.length);
  for (int64_t j = 0; j < row.length; ++j) {
    const int64_t key = row.keys.key(j);
    products[j] = row.scale * dot(q.row(i), k.row(key), q.dim);
    row.score[j] = capped(score.soft_cap, products[j]) + bias;
    if (score.alibi != Alibi::kNone)
      row.score[j] -= alibi_slope * static_cast<double>(std::abs(position - key));
  }
  return products;
}

// Multiplies phi'(s) by the derivative of the soft cap, 1 / cosh^2.
void apply_cap_slope(double cap, const std::vector<double>& products, Row& row) {
  if (cap == 0) return;
  for (int64_t j = 0; j < row.length; ++j) {
    const double cosh = std::cosh(products[j] / cap);
    row.prob_slope[j] *= 1 / (cosh * cosh);
  }
}

// The sign of x, 0 for 0, and NaN for NaN.
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

// Computes a, phi'(s), and the sink's exponential.
void activate(const ScoreFunctions& functions, double sink, Row& row) {
  row.prob.resize(row.length);
  row.prob_slope.resize(row.length);
  if (const auto& exponential = functions.exponential()) {
    double largest = sink;
    for (const double s : row.score) {
      const double exponent = exponential->rate * s;
      if (!(exponent <= largest)) largest = exponent;  // keeps a NaN
      if (std::isnan(largest)) break;
    }
    row.sink = sink == -std::numeric_limits<double>::infinity() ? 0 : std::exp(sink - largest);
    const double factor = sign(exponential->factor);
    for (int64_t j = 0; j < row.length; ++j) {
      row.prob[j] = factor * std::exp(exponential->rate * row.score[j] - largest);
      row.prob_slope[j] = exponential->rate * row.prob[j];
    }
    return;
  }
  for (int64_t j = 0; j < row.length; ++j) {
    const ScoreFunctions::Value a = functions.phi(row.score[j]);
    row.prob[j] = a.value;
    row.prob_slope[j] = a.slope;
  }
}

// Computes r from a row's activations, with its slopes.
void normalise_by(const ScoreFunction& score, Row& row) {
  const double n = static_cast<double>(row.length);
  row.sum_slope.assign(row.length, 0.0);
  row.sum = 0;
  switch (score.normalizer) {
    case Normalizer::kSum:
      row.sum = row.sink;
      for (const double a : row.prob) row.sum += a;
      row.sum_slope.assign(row.length, 1.0);
      return;
    case Normalizer::kSumAbs:
      for (int64_t j = 0; j < row.length; ++j) {
        row.sum += std::abs(row.prob[j]);
        row.sum_slope[j] = sign(row.prob[j]);
      }
      return;
    case Normalizer::kNone:
      row.sum = 1;
      return;
    case Normalizer::kLength:
      row.sum = n;
      return;
    case Normalizer::kSqrtLength:
      row.sum = score.normalizer_gain * std::sqrt(n / 2);
      return;
  }
}

// Stage 1: P = a / r. A row with r = 0 has no output.
void normalise(const ScoreFunction& score, Row& row) {
  normalise_by(score, row);
  row.has_output = row.sum != 0;
  for (double& p : row.prob) p /= row.sum;
}

// Stage 2 with re-weighting: the weights W / Z with the slope p U^(p-1) / Z. It uses u = U / max U,
// which gives the same results and cannot overflow.
void reweight(const Problem& problem, Row& row) {
  const double n = static_cast<double>(row.length);
  const double offset = row_offset(problem, row.length);
  std::vector<double> u(row.length);
  double largest = 0;
  for (int64_t j = 0; j < row.length; ++j) {
    u[j] = positive_part(n * row.prob[j] - offset);
    if (!(u[j] <= largest)) largest = u[j];  // keeps a NaN
    if (std::isnan(largest)) break;
  }
  row.has_output = !(largest <= kDeadRow);
  if (!row.has_output) return;

  double sum = 0;
  row.weight.resize(row.length);
  row.weight_slope.resize(row.length);
  row.weight_sum_slope.assign(row.length, 1.0);
  for (int64_t j = 0; j < row.length; ++j) {
    u[j] /= largest;
    row.weight[j] = std::pow(u[j], problem.p);
    sum += row.weight[j];
  }
  for (int64_t j = 0; j < row.length; ++j) {
    row.weight[j] /= sum;
    row.weight_slope[j] =
        u[j] <= 0 ? 0.0 : n * problem.p * std::pow(u[j], problem.p - 1) / (largest * sum);
  }
}

// Stage 2 with psi: the weights y / z.
void apply_psi(const Problem& problem, const ScoreFunctions& functions, Row& row) {
  const double n = static_cast<double>(row.length);
  const double offset = row_offset(problem, row.length);
  const PsiNormalizer normalizer = problem.score.psi_normalizer;
  row.weight.resize(row.length);
  row.weight_slope.resize(row.length);
  row.weight_sum_slope.assign(row.length, normalizer == PsiNormalizer::kSum ? 1.0 : 0.0);
  double sum = normalizer == PsiNormalizer::kNone ? 1 : 0;
  for (int64_t j = 0; j < row.length; ++j) {
    const ScoreFunctions::Value y = functions.psi(n * row.prob[j], offset, n);
    row.weight[j] = y.value;
    row.weight_slope[j] = n * y.slope;
    if (normalizer == PsiNormalizer::kSum) sum += y.value;
    if (normalizer == PsiNormalizer::kSumAbs) {
      sum += std::abs(y.value);
      row.weight_sum_slope[j] = sign(y.value);
    }
  }
  row.has_output = sum != 0;
  for (double& y : row.weight) y /= sum;
  for (double& slope : row.weight_slope) slope /= sum;
}

// No stage 2: the weights are P.
void take_probs(Row& row) {
  row.weight = row.prob;
  row.weight_slope.assign(row.length, 1.0);
  row.weight_sum_slope.assign(row.length, 0.0);
}

// +1 for the largest score of a row, -1 for the next one, +1 for the third, and so on. So errors of
// two keys that share most of the weight never cancel.
std::vector<double> alternating_signs(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t j) { return std::isnan(scores[j]) ? 0.0 : scores[j]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  std::vector<double> signs(scores.size());
  for (size_t place = 0; place < order.size(); ++place)
    signs[order[place]] = place % 2 == 0 ? 1 : -1;
  return signs;
}

// Rounding::kFloat32. A product errs in proportion to the lengths of its vectors. Half a unit,
// because few roundings are the largest: kernels err up to 3.6 times as much as results of these.
void round_scores(const UnitRows& q, const UnitRows& k, int64_t i,
                  const std::vector<double>& signs, Row& row) {
  const double q_square = dot(q.row(i), q.row(i), q.dim);
  for (int64_t j = 0; j < row.length; ++j) {
    const int64_t key = row.keys.key(j);
    const double lengths = std::sqrt(q_square * dot(k.row(key), k.row(key), k.dim));
    row.score[j] +=
        signs[j] * kFloatUnit / 2 * (std::abs(row.scale) * lengths + std::abs(row.score[j]));
  }
}

// Rounding::kFloat32. An activation and what is made of it up to N P are rounded.
void round_activations(const std::vector<double>& signs, Row& row) {
  for (int64_t j = 0; j < row.length; ++j) row.prob[j] *= 1 + kFloatUnit * signs[j];
}

double minus(double a, double b, Terms terms) {
  return terms == Terms::kSigned ? a - b : std::abs(a) + std::abs(b);
}

double term(double a, Terms terms) { return terms == Terms::kSigned ? a : std::abs(a); }

}  // namespace

ScoreFunctions::ScoreFunctions(const ScoreFunction& score)
    : is_softplus_(score.phi == Activation()), phi_(with_derivative(score.phi.expression)) {
  if (normalises_by_sum(score)) exponential_ = as_exponential(score.phi.expression);
  if (score.psi.expression) psi_.emplace(with_derivative(*score.psi.expression));
}

ScoreFunctions::Value ScoreFunctions::phi(double x) const {
  if (is_softplus_) return {softplus(x), sigmoid(x)};
  return value_of(phi_, {x});
}

ScoreFunctions::Value ScoreFunctions::psi(double x, double offset, double length) const {
  return value_of(*psi_, {x, offset, length});
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double dot(const double* a, const double* b, int64_t n) {
  // Four independent sums, because each addition to a single one would wait for the last.
  double sums[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

UnitRows unit_rows(const double* x, int64_t rows, int64_t dim, bool qk_norm) {
  if (!qk_norm) return {{x, x + rows * dim}, std::vector<double>(rows, 1.0), dim, false};
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

Row forward_row(const Problem& problem, const ScoreFunctions& functions, const Sizes& sizes,
                const UnitRows& q, const UnitRows& k, int64_t i, double sink, double alibi_slope,
                Rounding rounding) {
  Row row;
  row.keys = visible_keys(problem, sizes.seq_q, sizes.seq_k, i);
  row.length = row.keys.count();
  row.has_output = row.length > 0;
  if (!row.has_output) return row;
  const std::vector<double> products =
      score_row(problem.score, q, k, i, i + sizes.seq_k - sizes.seq_q, alibi_slope, row);
  std::vector<double> signs;
  if (rounding == Rounding::kFloat32) {
    signs = alternating_signs(row.score);
    round_scores(q, k, i, signs, row);
  }
  activate(functions, sink, row);
  if (rounding == Rounding::kFloat32) round_activations(signs, row);
  apply_cap_slope(problem.score.soft_cap, products, row);
  normalise(problem.score, row);
  if (!row.has_output) return row;
  if (problem.p != 0) {
    reweight(problem, row);
  } else if (problem.score.psi.expression) {
    apply_psi(problem, functions, row);
  } else {
    take_probs(row);
  }
  return row;
}

double row_offset(const Problem& problem, int64_t length) {
  return length <= kNoOffsetLength ? 0.0 : problem.offset;
}

std::vector<double> score_gradient(const Row& row, const std::vector<double>& d, double delta,
                                   Terms terms, double* dsink) {
  std::vector<double> gradient(row.length);  // dP, then c dS
  double mean = 0;                           // epsilon_i = sum_j P_ij dP_ij
  for (int64_t j = 0; j < row.length; ++j) {
    gradient[j] =
        term(row.weight_slope[j], terms) * minus(d[j], row.weight_sum_slope[j] * delta, terms);
    mean += term(row.prob[j], terms) * gradient[j];
  }
  *dsink -= row.sink / row.sum * mean;
  for (int64_t j = 0; j < row.length; ++j) {
    const double through_sum = minus(gradient[j], row.sum_slope[j] * mean, terms) / row.sum;
    gradient[j] = term(row.scale * through_sum * row.prob_slope[j], terms);
  }
  return gradient;
}

double score_gradient_at(const Row& row, int64_t j, double d, double delta, double epsilon) {
  const double prob_gradient = row.weight_slope[j] * (d - row.weight_sum_slope[j] * delta);
  return row.scale * (prob_gradient - row.sum_slope[j] * epsilon) / row.sum * row.prob_slope[j];
}

void add_unit_gradients(const std::vector<double>& score_grad, const VisibleKeys& keys,
                        const UnitRows& q, const UnitRows& k, int64_t i, Terms terms,
                        double* dq_hat, std::vector<double>& dk_hat) {
  for (int64_t n = 0; n < static_cast<int64_t>(score_grad.size()); ++n) {
    const int64_t j = keys.key(n);
    for (int64_t c = 0; c < q.dim; ++c) {
      dq_hat[c] += score_grad[n] * term(k.row(j)[c], terms);
      dk_hat[j * q.dim + c] += score_grad[n] * term(q.row(i)[c], terms);
    }
  }
}

void through_norm(const UnitRows& x, int64_t i, double* gradient) {
  if (!x.has_norms) return;
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
  if (!x.has_norms) return dot(gradient, gradient, x.dim);
  if (x.norm[i] <= kZeroNorm) return 0.0;
  return 4 * dot(gradient, gradient, x.dim) / (x.norm[i] * x.norm[i]);
}

}  // namespace lssar::reference
