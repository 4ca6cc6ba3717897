// The error of an ideal kernel: the reference repeated with those roundings that every kernel of
// the dtype must make (docs/accuracy.md), and exact otherwise. Only reference.cpp uses it. One
// object per (batch, kv head); one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/problem.h"
#include "reference/reference_row.h"

namespace lssar::reference {

// Squared L2 norms of the ideal kernel's errors.
struct LossSquares {
  double o = 0, dq = 0, dk = 0, dv = 0;
};

// A row's results without rounding. In a forward `grad_o` is null and the fields after it are
// empty.
struct ExactRow {
  const Row& row;
  int64_t query;  // index within the head
  const double* o;
  const double* grad_o;
  const double* dq;
  const std::vector<double>& value_dot;  // D
};

class RoundedGroup {
 public:
  // `k` holds the group's keys, `v` its values [length, head_dim_v]. Both must outlive the object.
  RoundedGroup(const Problem& problem, const UnitRows& k, const double* v, bool backward);

  // REQUIRES: exact.row.has_output.
  void add_row(const ExactRow& exact, const UnitRows& q);
  // Call it after the last row of the last head. `dk` and `dv` are null in a forward.
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
