#include "score/derivative.h"

#include <cmath>
#include <numbers>
#include <unordered_map>

namespace lssar {

using Kind = Expression::Kind;

namespace {

// d f(u) / du
Expression slope(Kind function, const Expression& u) {
  const Expression f = apply(function, u);
  switch (function) {
    case Kind::kExp:
      return f;
    case Kind::kLog:
      return 1.0 / u;
    case Kind::kLog1p:
      return 1.0 / (1.0 + u);
    case Kind::kSqrt:
      return 0.5 / f;
    case Kind::kTanh:
      return 1.0 - f * f;
    case Kind::kErf:
      return 2 * std::numbers::inv_sqrtpi * apply(Kind::kExp, -(u * u));
    case Kind::kSigmoid:
      return f * (1.0 - f);
    case Kind::kSoftplus:
      return apply(Kind::kSigmoid, u);
    default:  // kAbs
      return where(Comparison::kLess, 0.0, u, 1.0, where(Comparison::kLess, u, 0.0, -1.0, 0.0));
  }
}

class Differentiator {
 public:
  explicit Differentiator(Variable variable) : variable_(variable) {}

  // Differentiates each shared part once, because a derivative's text may be far longer than its
  // graph.
  Expression operator()(const Expression& e) {
    const auto known = known_.find(e.identity());
    if (known != known_.end()) return known->second;
    const Expression d = derive(e);
    known_.emplace(e.identity(), d);
    return d;
  }

 private:
  Expression derive(const Expression& e) {
    const auto& o = e.operands();
    switch (e.kind()) {
      case Kind::kConstant:
        return 0.0;
      case Kind::kVariable:
        return e.variable() == variable_ ? 1.0 : 0.0;
      case Kind::kSum: {
        Expression sum = 0.0;
        for (const Expression& term : o) sum = sum + (*this)(term);
        return sum;
      }
      case Kind::kProduct:
        return of_product(e);
      case Kind::kPower:
        return of_power(o[0], o[1]);
      case Kind::kMax:
        return where(Comparison::kLess, o[1], o[0], (*this)(o[0]), (*this)(o[1]));
      case Kind::kMin:
        return where(Comparison::kLess, o[0], o[1], (*this)(o[0]), (*this)(o[1]));
      case Kind::kWhere:
        return where(e.comparison(), o[0], o[1], (*this)(o[2]), (*this)(o[3]));
      default: {
        const Expression inner = (*this)(o[0]);
        return inner.is_constant(0) ? inner : slope(e.kind(), o[0]) * inner;
      }
    }
  }

  Expression of_product(const Expression& e) {
    Expression sum = 0.0;
    for (size_t i = 0; i < e.operands().size(); ++i) {
      Expression term = (*this)(e.operands()[i]);
      for (size_t j = 0; j < e.operands().size() && !term.is_constant(0); ++j)
        if (j != i) term = term * e.operands()[j];
      sum = sum + term;
    }
    return sum;
  }

  Expression of_power(const Expression& base, const Expression& exponent) {
    const Expression inner = (*this)(base), outer = (*this)(exponent);
    const Expression of_base =
        inner.is_constant(0) ? inner : exponent * pow(base, exponent - 1.0) * inner;
    if (outer.is_constant(0)) return of_base;
    return of_base + pow(base, exponent) * apply(Kind::kLog, base) * outer;
  }

  Variable variable_;
  std::unordered_map<const void*, Expression> known_;  // by identity
};

}  // namespace

Expression derivative(const Expression& expression, Variable variable) {
  return Differentiator(variable)(expression);
}

}  // namespace lssar
