// Operations on expressions. Each brings its result into canonical form.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "score/expression.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

struct Less {
  bool operator()(const Expression& a, const Expression& b) const {
    return Expression::compare(a, b) < 0;
  }
};

bool is_whole(double x) { return std::nearbyint(x) == x && std::abs(x) <= 1e9; }

// Calls take(operand) for each operand of a sum or product, or take(e) for any other expression.
template <typename Take>
void for_each_operand(Kind kind, const Expression& e, const Take& take) {
  if (e.kind() != kind) return take(e);
  for (const Expression& operand : e.operands()) take(operand);
}

// Splits e into coefficient * rest.
std::pair<double, Expression> split_coefficient(const Expression& e) {
  if (e.kind() != Kind::kProduct || !e.operands().back().is_constant()) return {1.0, e};
  std::vector<Expression> rest(e.operands().begin(), e.operands().end() - 1);
  const double coefficient = e.operands().back().constant();
  if (rest.size() == 1) return {coefficient, rest[0]};
  return {coefficient, Expression::raw(Kind::kProduct, std::move(rest))};
}

// coefficient * term. The term is not a sum or a constant and has no coefficient.
Expression times(double coefficient, const Expression& term) {
  if (coefficient == 1) return term;
  std::vector<Expression> factors;
  for_each_operand(Kind::kProduct, term, [&](const Expression& f) { factors.push_back(f); });
  factors.emplace_back(coefficient);
  return Expression::raw(Kind::kProduct, std::move(factors));
}

// A sum under construction: the coefficient of each term, and the constant.
class Terms {
 public:
  void add(const Expression& e, double factor) {
    for_each_operand(Kind::kSum, e, [&](const Expression& term) {
      if (term.is_constant()) {
        constant_ += factor * term.constant();
        return;
      }
      const auto [coefficient, rest] = split_coefficient(term);
      // 2 (x + 1) is expanded within a sum, so that like terms meet. Alone it stays as it is.
      if (rest.kind() == Kind::kSum) return add(rest, factor * coefficient);
      coefficients_[rest] += factor * coefficient;
    });
  }

  Expression sum() const {
    std::vector<Expression> terms;
    for (const auto& [term, coefficient] : coefficients_)
      if (coefficient != 0) terms.push_back(times(coefficient, term));
    if (terms.empty()) return constant_;
    if (constant_ != 0) terms.emplace_back(constant_);
    if (terms.size() == 1) return terms[0];
    // NOTE: a coefficient changes a term's kind, so the terms need sorting again.
    std::sort(terms.begin(), terms.end(), Less());
    return Expression::raw(Kind::kSum, std::move(terms));
  }

 private:
  std::map<Expression, double, Less> coefficients_;
  double constant_ = 0;
};

// A product under construction. Whole exponents of one sign are added up per base; x / x stays.
class Factors {
 public:
  void multiply(const Expression& e) {
    for_each_operand(Kind::kProduct, e, [&](const Expression& factor) {
      if (factor.is_constant()) {
        constant_ *= factor.constant();
      } else if (factor.kind() == Kind::kExp) {
        exponent_ = exponent_ + factor.operands()[0];
      } else if (factor.kind() == Kind::kPower && factor.operands()[1].is_constant() &&
                 is_whole(factor.operands()[1].constant())) {
        const double exponent = factor.operands()[1].constant();
        (exponent > 0 ? above_ : below_)[factor.operands()[0]] += exponent;
      } else {
        above_[factor] += 1;
      }
    });
  }

  Expression product() const {
    if (constant_ == 0) return 0.0;
    std::vector<Expression> factors;
    double constant = constant_;
    const Expression exponential = apply(Kind::kExp, exponent_);
    if (exponential.is_constant()) {
      constant *= exponential.constant();
    } else {
      factors.push_back(exponential);
    }
    for (const auto* part : {&above_, &below_})
      for (const auto& [base, exponent] : *part) factors.push_back(pow(base, exponent));
    if (factors.empty()) return constant;
    std::sort(factors.begin(), factors.end(), Less());
    if (constant != 1) factors.emplace_back(constant);
    if (factors.size() == 1) return factors[0];
    return Expression::raw(Kind::kProduct, std::move(factors));
  }

 private:
  std::map<Expression, double, Less> above_, below_;  // base -> exponent
  Expression exponent_ = 0.0;
  double constant_ = 1;
};

// Returns u if e is 1 + exp(u).
std::optional<Expression> argument_of_one_plus_exp(const Expression& e) {
  if (e.kind() != Kind::kSum || e.operands().size() != 2) return {};
  if (!e.operands()[1].is_constant(1) || e.operands()[0].kind() != Kind::kExp) return {};
  return e.operands()[0].operands()[0];
}

Expression whole_power(const Expression& base, double exponent) {
  if (base.kind() == Kind::kProduct) {
    Expression product = 1.0;
    for (const Expression& factor : base.operands()) product = product * pow(factor, exponent);
    return product;
  }
  if (base.kind() == Kind::kPower && base.operands()[1].is_constant() &&
      is_whole(base.operands()[1].constant())) {
    return pow(base.operands()[0], base.operands()[1].constant() * exponent);
  }
  if (exponent == -1) {
    if (const auto u = argument_of_one_plus_exp(base)) return apply(Kind::kSigmoid, -*u);
  }
  return Expression::raw(Kind::kPower, {base, exponent});
}

}  // namespace

Expression operator+(const Expression& a, const Expression& b) {
  Terms terms;
  terms.add(a, 1);
  terms.add(b, 1);
  return terms.sum();
}

Expression operator-(const Expression& a, const Expression& b) {
  Terms terms;
  terms.add(a, 1);
  terms.add(b, -1);
  return terms.sum();
}

Expression operator-(const Expression& a) { return -1.0 * a; }

Expression operator*(const Expression& a, const Expression& b) {
  Factors factors;
  factors.multiply(a);
  factors.multiply(b);
  return factors.product();
}

Expression operator/(const Expression& a, const Expression& b) { return a * pow(b, -1.0); }

Expression pow(const Expression& base, const Expression& exponent) {
  if (base.is_constant() && exponent.is_constant())
    return std::pow(base.constant(), exponent.constant());
  if (exponent.is_constant(0)) return 1.0;
  if (exponent.is_constant(1)) return base;
  if (base.is_constant(1)) return 1.0;
  if (base.kind() == Kind::kExp) return apply(Kind::kExp, base.operands()[0] * exponent);
  if (base.is_constant() && base.constant() > 0)
    return apply(Kind::kExp, std::log(base.constant()) * exponent);
  if (exponent.is_constant(0.5)) return apply(Kind::kSqrt, base);
  if (exponent.is_constant() && is_whole(exponent.constant()))
    return whole_power(base, exponent.constant());
  return Expression::raw(Kind::kPower, {base, exponent});
}

// NOTE: min and max pass NaN on, unlike std::min.
Expression min(const Expression& a, const Expression& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::min(a.constant(), b.constant());
  return Expression::raw(Kind::kMin, Less()(a, b) ? std::vector{a, b} : std::vector{b, a});
}

Expression max(const Expression& a, const Expression& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  return Expression::raw(Kind::kMax, Less()(a, b) ? std::vector{a, b} : std::vector{b, a});
}

Expression where(Comparison comparison, const Expression& left, const Expression& right,
                 const Expression& value, const Expression& other) {
  if (value == other) return value;
  if (left.is_constant() && right.is_constant())
    return holds(comparison, left.constant(), right.constant()) ? value : other;
  return Expression::raw(Kind::kWhere, {left, right, value, other}, comparison);
}

Expression apply(Kind function, const Expression& operand) {
  if (operand.is_constant()) return value_of(function, operand.constant());
  if (function == Kind::kLog) {
    if (const auto u = argument_of_one_plus_exp(operand)) return apply(Kind::kSoftplus, *u);
  }
  if (function == Kind::kLog1p && operand.kind() == Kind::kExp)
    return apply(Kind::kSoftplus, operand.operands()[0]);
  if (function == Kind::kAbs && operand.kind() == Kind::kAbs) return operand;
  return Expression::raw(function, {operand});
}

}  // namespace lssar
