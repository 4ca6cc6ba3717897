// One row of the reference: from its scores to its weights as docs/math.md defines them, and the
// gradients back to its scores and through the norms. Only reference.cpp uses it; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "codegen/visible_keys.h"
#include "score/program.h"
#include "score/properties.h"

namespace lssar::reference {

// The rows of one head of q or k as directions (0 for a row without one) and lengths. For score
// functions without norms these are the rows themselves, with lengths of 1.
struct UnitRows {
  std::vector<double> unit, norm;
  int64_t dim = 0;
  bool has_norms = true;

  const double* row(int64_t i) const { return unit.data() + i * dim; }
};

UnitRows unit_rows(const double* x, int64_t rows, int64_t dim, bool qk_norm);

// phi and psi with their derivatives, compiled to programs. Any thread may use one.
class ScoreFunctions {
 public:
  explicit ScoreFunctions(const ScoreFunction& score);

  struct Value {
    double value, slope;
  };
  Value phi(double x) const;
  // REQUIRES: the score function has a psi.
  Value psi(double x, double offset, double length) const;

  // Set if phi is C exp(lambda x) over a sum. The reference then factors out the largest lambda s,
  // as kernels do: exp(lambda s - largest) stands for phi, and lambda times it for phi'.
  const std::optional<Exponential>& exponential() const { return exponential_; }

 private:
  bool is_softplus_ = false;
  std::optional<Exponential> exponential_;
  Program phi_;
  std::optional<Program> psi_;
};

// One row of the attention, from its scores to its weights. Vectors have an element for each key
// that the row sees.
struct Row {
  VisibleKeys keys;
  int64_t length = 0;                       // N_i
  double scale = 0;                         // c_i
  double sum = 0;                           // r_i
  double sink = 0;                          // the sink's part of r_i
  bool has_output = true;                   // false: N_i = 0, or a row whose output is 0
  std::vector<double> score, prob, weight;  // s, P, and the weights of v in o
  std::vector<double> prob_slope;           // phi'(s), times cap' of the product
  // d weight / dP with the sum of the weights held fixed: 1, N p U^(p-1) / Z, or N psi' / z.
  std::vector<double> weight_slope;
  // Derivatives of the two sums by their terms: 1 or a sign, or 0 if the normalizer is not a sum.
  std::vector<double> sum_slope, weight_sum_slope;
};

// kFloat32: scores and activations are off by about as much as float32 errs, in turns too large and
// too small.
enum class Rounding { kNone, kFloat32 };

// Row i up to its weights. For a gradient it also computes the slopes. `sink`: the head's logit;
// -infinity means none. `alibi_slope`: the head's.
Row forward_row(const Problem& problem, const ScoreFunctions& functions, const Sizes& sizes,
                const UnitRows& q, const UnitRows& k, int64_t i, double sink,
                double alibi_slope = 0, Rounding rounding = Rounding::kNone);

inline constexpr double kFloatUnit = 0x1p-24;  // unit roundoff of float32

// All scores of a row count as equal if its largest U is at most this.
inline constexpr double kDeadRow = 0x1p-16;

double softplus(double x);

// b_i of a row with `length` keys.
double row_offset(const Problem& problem, int64_t length);

// kSigned gives the gradient. kAbsolute adds up the magnitudes of its terms, to which its rounding
// error is proportional.
enum class Terms { kSigned, kAbsolute };

// c dS of a row, which both dq_hat and dk_hat sum. `d` is D_ij = g_i . v_j, `delta` is g_i . o_i.
// Adds the row's part of the sink's gradient to `dsink`. REQUIRES: row.has_output.
std::vector<double> score_gradient(const Row& row, const std::vector<double>& d, double delta,
                                   Terms terms, double* dsink);

// One element of it, signed, for a given epsilon_i.
double score_gradient_at(const Row& row, int64_t j, double d, double delta, double epsilon);

// Adds one row's contribution to dq_hat and dk_hat. `keys`: those that the row sees.
void add_unit_gradients(const std::vector<double>& score_grad, const VisibleKeys& keys,
                        const UnitRows& q, const UnitRows& k, int64_t i, Terms terms,
                        double* dq_hat, std::vector<double>& dk_hat);

// dx = (dx_hat - x_hat (x_hat . dx_hat)) / |x|, in place. 0 if x has no direction.
void through_norm(const UnitRows& x, int64_t i, double* gradient);

// The squared norm of the absolute gradient before the norm. Each of the projection's two terms is
// at most |dx_hat|.
double absolute_through_norm(const UnitRows& x, int64_t i, const double* gradient);

double dot(const double* a, const double* b, int64_t n);

}  // namespace lssar::reference
