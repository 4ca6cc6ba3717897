#include "score/expression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace lssar {

using Kind = Expression::Kind;

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

template <typename T>
int three_way(T a, T b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

Expression::Expression(Node node) {
  // NOTE: -0 equals 0, so it must hash as 0.
  uint64_t hash = mix(static_cast<uint64_t>(node.kind) + 1,
                      std::bit_cast<uint64_t>(node.constant == 0 ? 0.0 : node.constant));
  hash = mix(hash, static_cast<uint64_t>(node.variable));
  hash = mix(hash, static_cast<uint64_t>(node.comparison));
  for (const Expression& operand : node.operands) hash = mix(hash, operand.hash());
  node.hash = hash;
  node_ = std::make_shared<const Node>(std::move(node));
}

Expression::Expression(double constant)
    : Expression(Node{.kind = Kind::kConstant, .constant = constant, .operands = {}}) {}

Expression::Expression(Variable variable)
    : Expression(Node{.kind = Kind::kVariable, .variable = variable, .operands = {}}) {}

Expression Expression::raw(Kind kind, std::vector<Expression> operands, Comparison comparison) {
  return Expression(Node{.kind = kind, .comparison = comparison, .operands = std::move(operands)});
}

bool Expression::depends_on(Variable variable) const {
  if (kind() == Kind::kVariable) return this->variable() == variable;
  return std::any_of(operands().begin(), operands().end(),
                     [&](const Expression& operand) { return operand.depends_on(variable); });
}

int Expression::compare(const Expression& a, const Expression& b) {
  if (a.node_ == b.node_) return 0;
  if (a.kind() != b.kind()) return three_way(a.kind(), b.kind());
  if (a.is_constant()) return three_way(a.constant(), b.constant());
  if (a.kind() == Kind::kVariable) return three_way(a.variable(), b.variable());
  const int comparisons = three_way(a.node_->comparison, b.node_->comparison);
  if (comparisons != 0) return comparisons;
  const size_t common = std::min(a.operands().size(), b.operands().size());
  for (size_t i = 0; i < common; ++i) {
    const int order = compare(a.operands()[i], b.operands()[i]);
    if (order != 0) return order;
  }
  return three_way(a.operands().size(), b.operands().size());
}

double value_of(Kind function, double x) {
  switch (function) {
    case Kind::kExp:
      return std::exp(x);
    case Kind::kLog:
      return std::log(x);
    case Kind::kLog1p:
      return std::log1p(x);
    case Kind::kSqrt:
      return std::sqrt(x);
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kErf:
      return std::erf(x);
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Kind::kAbs:
      return std::abs(x);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

bool holds(Comparison comparison, double left, double right) {
  switch (comparison) {
    case Comparison::kLess:
      return left < right;
    case Comparison::kLessEqual:
      return left <= right;
    case Comparison::kEqual:
      return left == right;
  }
  return false;
}

}  // namespace lssar
