#include "score/program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace lssar {

using Kind = Expression::Kind;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Hash {
  size_t operator()(const Expression& e) const { return e.hash(); }
};

class Lowering {
 public:
  explicit Lowering(std::vector<Program::Step>& steps) : steps_(steps) {}

  int operator()(const Expression& e) {
    const auto known = known_.find(e);
    if (known != known_.end()) return known->second;
    const int index = lower(e);
    known_.emplace(e, index);
    return index;
  }

 private:
  int lower(const Expression& e) {
    if (e.is_constant()) return push({.kind = Kind::kConstant, .constant = e.constant()});
    if (e.kind() == Kind::kVariable)
      return push({.kind = Kind::kVariable, .variable = e.variable()});
    std::vector<int> operands;
    for (const Expression& operand : e.operands()) operands.push_back((*this)(operand));
    if (e.kind() == Kind::kWhere)
      return push({.kind = e.kind(), .comparison = e.comparison(), .operands = operands});
    if (e.kind() != Kind::kSum && e.kind() != Kind::kProduct)
      return push({.kind = e.kind(), .operands = operands});
    int value = operands[0];
    for (size_t i = 1; i < operands.size(); ++i)
      value = push({.kind = e.kind(), .operands = {value, operands[i]}});
    return value;
  }

  int push(Program::Step step) {
    steps_.push_back(std::move(step));
    return static_cast<int>(steps_.size()) - 1;
  }

  std::vector<Program::Step>& steps_;
  std::unordered_map<Expression, int, Hash> known_;
};

double argument_of(Variable variable, const Arguments& arguments) {
  switch (variable) {
    case Variable::kX:
      return arguments.x;
    case Variable::kOffset:
      return arguments.offset;
    case Variable::kLength:
      return arguments.length;
  }
  return kNan;
}

double result_of(const Program::Step& step, const Arguments& arguments,
                 std::span<const double> values) {
  const auto operand = [&](size_t i) { return values[step.operands[i]]; };
  switch (step.kind) {
    case Kind::kConstant:
      return step.constant;
    case Kind::kVariable:
      return argument_of(step.variable, arguments);
    case Kind::kSum:
      return operand(0) + operand(1);
    case Kind::kProduct:
      return operand(0) * operand(1);
    case Kind::kPower:
      return std::pow(operand(0), operand(1));
    case Kind::kMin:
      return std::isnan(operand(0)) || std::isnan(operand(1)) ? kNan
                                                              : std::min(operand(0), operand(1));
    case Kind::kMax:
      return std::isnan(operand(0)) || std::isnan(operand(1)) ? kNan
                                                              : std::max(operand(0), operand(1));
    case Kind::kWhere:
      if (std::isnan(operand(0)) || std::isnan(operand(1))) return kNan;
      return holds(step.comparison, operand(0), operand(1)) ? operand(2) : operand(3);
    default:
      return value_of(step.kind, operand(0));
  }
}

}  // namespace

Program::Program(std::span<const Expression> results) {
  Lowering lower(steps_);
  for (const Expression& result : results) results_.push_back(lower(result));
}

void Program::evaluate(const Arguments& arguments, std::vector<double>& scratch,
                       std::span<double> results) const {
  scratch.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) scratch[i] = result_of(steps_[i], arguments, scratch);
  for (size_t i = 0; i < results_.size(); ++i) results[i] = scratch[results_[i]];
}

double evaluate(const Expression& expression, const Arguments& arguments) {
  std::vector<double> scratch;
  double result = 0;
  Program({&expression, 1}).evaluate(arguments, scratch, {&result, 1});
  return result;
}

}  // namespace lssar
