// What an ideal kernel loses: the reference once more with the roundings that no kernel of the
// dtype can do without (docs/accuracy.md), and exact everywhere else. Only reference.cpp
// uses it. One object per (batch, kv head); threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/problem.h"
#include "reference/reference_row.h"

namespace lssar::reference {

// Squared L2 norms of what the tensors of the ideal kernel are off by.
struct LossSquares {
  double o = 0, dq = 0, dk = 0, dv = 0;
};

// A row's results without rounding. `grad_o` and what follows: null and empty in a forward.
struct ExactRow {
  const Row& row;
  int64_t query;  // among the head's
  const double* o;
  const double* grad_o;
  const double* dq;
  const std::vector<double>& value_dot;  // D
};

class RoundedGroup {
 public:
  // The group's keys, and its values [length, head_dim_v]. Both must outlive the object.
  RoundedGroup(const Problem& problem, const UnitRows& k, const double* v, bool backward);

  // REQUIRES: exact.row.has_output.
  void add_row(const ExactRow& exact, const UnitRows& q);
  // After the last row of the last head. Both null in a forward.
  LossSquares finish(const double* dk, const double* dv);

 private:
  double rounded_score(const UnitRows& q, int64_t query, int64_t key, double exact,
                       double scale) const;
  Row rounded_row(const Row& exact, const UnitRows& q, int64_t query) const;
  void weigh(Row& row) const;
  std::vector<double> rounded_output(Row& row) const;
  double epsilon(const Row& row, const std::vector<double>& o, const ExactRow& exact,
                 double delta) const;
  void add_gradients(const Row& row, const std::vector<double>& o, const ExactRow& exact,
                     const UnitRows& q);
  double round(double x) const;
  double stored(double x) const;

  const Problem& problem_;
  const UnitRows& k_;
  const double* v_;
  std::vector<double> dk_hat_, dv_;
  LossSquares lost_;
};

}  // namespace lssar::reference
