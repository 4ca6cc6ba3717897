#include "autotune/model/expression_cost.h"

#include <cmath>
#include <vector>

#include "codegen/pass_needs.h"
#include "codegen/score_source.h"
#include "codegen/source/expression_source.h"
#include "score/derivative.h"

namespace lssar {
namespace {

using Kind = Expression::Kind;

// Slots and special functions, read from machine code: the loop of a kernel with this function as
// phi, minus that of phi = x (docs/instruction_slots.md).
constexpr ScoreCost kExp = {1, 1}, kPreciseExp = {8, 1};
constexpr ScoreCost kReciprocal = {11, 1}, kDivision = {10, 1}, kSquareRoot = {10, 1};
constexpr ScoreCost kLog = {42, 1}, kLogOnePlus = {64, 2}, kPower = {59, 2};
constexpr ScoreCost kErf = {54, 2};
constexpr ScoreCost kTanhBesideExp = {31, 1};      // division and polynomial
constexpr ScoreCost kSigmoidBesideExp = {12, 1};   // sum and reciprocal
constexpr ScoreCost kSoftplusBesideExp = {11, 0};  // the polynomial of the largest degree
constexpr ScoreCost kChoice = {3, 0};
constexpr ScoreCost kOne = {1, 0};
constexpr double kAlibiSlots = 2;  // not measured: the distance, and an fma

// The number of multiplications for x^n by squaring.
double squarings(int exponent) {
  int count = 0;
  for (int rest = exponent; rest > 1; rest /= 2) count += 1 + rest % 2;
  return count;
}

class Counter {
 public:
  Counter(const Program& program, bool is_precise)
      : steps_(program.steps()), uses_(steps_.size()), exp_(is_precise ? kPreciseExp : kExp) {
    for (const Program::Step& step : steps_)
      for (const int operand : step.operands) ++uses_[operand];
    for (const int result : program.results()) ++uses_[result];
  }

  ScoreCost count() const {
    ScoreCost sum;
    for (const Program::Step& step : steps_) sum += cost(step);
    return sum;
  }

 private:
  const Program::Step& operand(const Program::Step& step, size_t i) const {
    return steps_[step.operands[i]];
  }
  static bool is_constant(const Program::Step& step, double value) {
    return step.kind == Kind::kConstant && step.constant == value;
  }
  bool is_negation(const Program::Step& step) const {
    return step.kind == Kind::kProduct &&
           (is_constant(operand(step, 0), -1) || is_constant(operand(step, 1), -1));
  }
  bool is_inverse(const Program::Step& step) const {
    return step.kind == Kind::kPower && operand(step, 1).kind == Kind::kConstant &&
           operand(step, 1).constant < 0;
  }
  // Whether the step is a product that becomes part of its sum (fma), because nothing else uses it.
  bool is_fused(const Program::Step& step, size_t i) const {
    const Program::Step& one = operand(step, i);
    return one.kind == Kind::kProduct && uses_[step.operands[i]] == 1 && !is_negation(one) &&
           !is_inverse(operand(one, 0)) && !is_inverse(operand(one, 1));
  }

  ScoreCost power(const Program::Step& step) const {
    const Program::Step& exponent = operand(step, 1);
    if (exponent.kind != Kind::kConstant) return kPower;
    const double size = std::abs(exponent.constant);
    ScoreCost cost;
    if (size == 0.5) {
      cost = kSquareRoot;
    } else if (size <= kMostWholePower && std::nearbyint(size) == size) {
      cost = {squarings(static_cast<int>(size)), 0};
    } else {
      return kPower;
    }
    if (exponent.constant < 0) cost += kReciprocal;
    return cost;
  }

  ScoreCost product(const Program::Step& step) const {
    if (is_negation(step)) return {};  // becomes a sign of the operand
    for (const size_t i : {0, 1})
      if (is_inverse(operand(step, i)) && uses_[step.operands[i]] == 1)
        return {kDivision.slots - kReciprocal.slots, 0};  // instead of the reciprocal
    return kOne;
  }

  ScoreCost cost(const Program::Step& step) const {
    ScoreCost with_exp = exp_;
    switch (step.kind) {
      case Kind::kConstant:
      case Kind::kVariable:
        return {};
      case Kind::kSum:
        return {is_fused(step, 0) || is_fused(step, 1) ? 0.0 : 1.0, 0};
      case Kind::kProduct:
        return product(step);
      case Kind::kPower:
        return power(step);
      case Kind::kExp:
        return exp_;
      case Kind::kLog:
        return kLog;
      case Kind::kLog1p:
        return kLogOnePlus;
      case Kind::kSqrt:
        return kSquareRoot;
      case Kind::kErf:
        return kErf;
      case Kind::kTanh:
        return with_exp += kTanhBesideExp;
      case Kind::kSigmoid:
        return with_exp += kSigmoidBesideExp;
      case Kind::kSoftplus:
        return with_exp += kSoftplusBesideExp;
      case Kind::kWhere:
        return kChoice;
      case Kind::kAbs:
      case Kind::kMin:
      case Kind::kMax:
        return kOne;
    }
    return {};
  }

  const std::vector<Program::Step>& steps_;
  std::vector<int> uses_;
  ScoreCost exp_;
};

// Counts the value alone, and the value with its derivative.
void count_function(const Expression& value, bool is_precise, ScoreCost* alone,
                    ScoreCost* with_slope) {
  const Expression both[] = {value, derivative(value, Variable::kX)};
  *alone = cost_of(Program(std::span<const Expression>(both, 1)), is_precise);
  *with_slope = cost_of(Program(both), is_precise);
}

}  // namespace

ScoreCost cost_of(const Program& program, bool is_precise) {
  return Counter(program, is_precise).count();
}

FunctionCosts function_costs(const Problem& problem) {
  FunctionCosts costs;
  const ScoreFunction& score = problem.score;
  const bool is_precise = needs_precise_functions(problem);
  if (exponential_of(problem)) {
    costs.phi = costs.phi_and_slope = {0, 1};
  } else {
    count_function(score.phi.expression, is_precise, &costs.phi, &costs.phi_and_slope);
  }
  if (score.soft_cap != 0) {
    const SoftCap cap = soft_cap_of(problem);
    const Expression both[] = {cap.value, cap.slope};
    const ScoreCost alone = cost_of(Program(std::span<const Expression>(both, 1)), is_precise);
    const ScoreCost with_slope = cost_of(Program(both), is_precise);
    costs.phi += alone;
    costs.phi_and_slope += with_slope;
  }
  if (reads_alibi(problem)) {
    costs.phi.slots += kAlibiSlots;
    costs.phi_and_slope.slots += kAlibiSlots;
  }
  if (score.psi.expression)
    count_function(*score.psi.expression, is_precise, &costs.psi, &costs.psi_and_slope);
  return costs;
}

}  // namespace lssar
