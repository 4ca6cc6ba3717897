// One row of the reference: the definition of docs/math.md from a row's scores to its weights, and
// the gradients back to its scores and through the norms. Only reference.cpp uses it; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "score/program.h"
#include "score/properties.h"

namespace lssar::reference {

// The rows of one head of q or k: directions (0 for a row without one) and lengths. For score
// functions without norms: the rows themselves, with lengths of 1.
struct UnitRows {
  std::vector<double> unit, norm;
  int64_t dim = 0;
  bool has_norms = true;

  const double* row(int64_t i) const { return unit.data() + i * dim; }
};

UnitRows unit_rows(const double* x, int64_t rows, int64_t dim, bool qk_norm);

// phi and psi with their derivatives, ready to be evaluated. Any thread may use one.
class ScoreFunctions {
 public:
  explicit ScoreFunctions(const ScoreFunction& score);

  struct Value {
    double value, slope;
  };
  Value phi(double x) const;
  // REQUIRES: the score function has a psi.
  Value psi(double x, double offset, double length) const;

  // phi is C exp(lambda x) over a sum: kernels and reference take the largest lambda s out. Then
  // exp(lambda s - largest) stands for phi, and its lambda multiple for phi'.
  const std::optional<Exponential>& exponential() const { return exponential_; }

 private:
  bool is_softplus_ = false;
  std::optional<Exponential> exponential_;
  Program phi_;
  std::optional<Program> psi_;
};

// One row of the attention, from its scores to its weights.
struct Row {
  int64_t length = 0;                       // N_i
  double scale = 0;                         // c_i
  double sum = 0;                           // r_i
  double sink = 0;                          // the part of r_i that is the sink's
  bool has_output = true;                   // false: N_i = 0, or a row that gives 0
  std::vector<double> score, prob, weight;  // s, P, and what o sums v with
  std::vector<double> prob_slope;           // phi'(s)
  // d weight / dP before the weights' sum moves: 1, N p U^(p-1) / Z, or N psi' / z.
  std::vector<double> weight_slope;
  // How the two sums move with their terms: 0 for a normalizer that is none, else 1 or a sign.
  std::vector<double> sum_slope, weight_sum_slope;
};

// Row i, up to its weights. With a gradient also the slopes. `sink`: the head's logit; -infinity is
// none.
Row forward_row(const Problem& problem, const ScoreFunctions& functions, const Sizes& sizes,
                const UnitRows& q, const UnitRows& k, int64_t i, double sink);

inline constexpr double kDeadRow = 0x1p-16;  // largest U of a row whose scores count as all equal

double softplus(double x);

// b_i of a row with that many keys.
double row_offset(const Problem& problem, int64_t length);

// Signed: the gradient. Absolute: the sum of the magnitudes of its terms, what rounding errors of
// the signed one are proportional to.
enum class Terms { kSigned, kAbsolute };

// dS of a row, times c: what both dq_hat and dk_hat sum. `d` is D_ij = g_i . v_j, `delta` is
// g_i . o_i. REQUIRES: row.has_output.
// Adds to `dsink` the row's part of the sink's gradient.
std::vector<double> score_gradient(const Row& row, const std::vector<double>& d, double delta,
                                   Terms terms, double* dsink);

// One of them, signed, from epsilon_i.
double score_gradient_at(const Row& row, int64_t j, double d, double delta, double epsilon);

// Adds one row's part of dq_hat and dk_hat.
void add_unit_gradients(const std::vector<double>& score_grad, const UnitRows& q, const UnitRows& k,
                        int64_t i, Terms terms, double* dq_hat, std::vector<double>& dk_hat);

// dx = (dx_hat - x_hat (x_hat . dx_hat)) / |x|, in place; 0 where x has no direction.
void through_norm(const UnitRows& x, int64_t i, double* gradient);

// Squared norm of the absolute gradient behind the norm: the projection's two terms are at most
// |dx_hat| each.
double absolute_through_norm(const UnitRows& x, int64_t i, const double* gradient);

double dot(const double* a, const double* b, int64_t n);

}  // namespace lssar::reference
