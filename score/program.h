// Expressions as a list of steps, each shared part once: what evaluates them and what source code
// is written from.
#pragma once

#include <span>
#include <vector>

#include "score/expression.h"

namespace lssar {

struct Arguments {
  double x = 0, offset = 0, length = 0;  // Variable's
};

class Program {
 public:
  // `operands` are indices of earlier steps. Sums and products have two operands here.
  struct Step {
    Expression::Kind kind = Expression::Kind::kConstant;
    double constant = 0;
    Variable variable = Variable::kX;
    Comparison comparison = Comparison::kEqual;
    std::vector<int> operands = {};

    bool operator==(const Step&) const = default;
  };

  explicit Program(std::span<const Expression> results);

  const std::vector<Step>& steps() const { return steps_; }
  // Indices of the steps that hold the results, in the order of the constructor's expressions.
  const std::vector<int>& results() const { return results_; }

  // The results, in float64. `scratch` is room that calls can share. NaN goes through min, max and
  // the comparison of where.
  void evaluate(const Arguments& arguments, std::vector<double>& scratch,
                std::span<double> results) const;

 private:
  std::vector<Step> steps_;
  std::vector<int> results_;
};

// One value of one expression: for tests and checks; for many values keep a Program.
double evaluate(const Expression& expression, const Arguments& arguments);

}  // namespace lssar
