// Compiles expressions into a list of steps in which every shared part occurs once. Evaluation and
// generated source code both follow this list.
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
  // `operands` are indices of earlier steps. Sums and products have two operands in a step.
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

  // The results in float64. `scratch` is memory that calls may reuse. A NaN operand of min, max or
  // a comparison of where gives NaN.
  void evaluate(const Arguments& arguments, std::vector<double>& scratch,
                std::span<double> results) const;

 private:
  std::vector<Step> steps_;
  std::vector<int> results_;
};

// One value of one expression, for tests and checks. For many values keep a Program.
double evaluate(const Expression& expression, const Arguments& arguments);

}  // namespace lssar
