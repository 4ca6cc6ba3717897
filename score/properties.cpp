#include "score/properties.h"

#include <cmath>

#include "score/derivative.h"
#include "score/program.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

// C exp(lambda x) with any lambda, constants among them.
std::optional<Exponential> log_linear(const Expression& e);

std::optional<Exponential> product_of(const Expression& e) {
  Exponential product{1, 0};
  for (const Expression& factor : e.operands()) {
    const auto part = log_linear(factor);
    if (!part) return {};
    product.factor *= part->factor;
    product.rate += part->rate;
  }
  return product;
}

// Exponentials of the same rate.
std::optional<Exponential> sum_of(const Expression& e) {
  auto sum = log_linear(e.operands()[0]);
  for (size_t i = 1; i < e.operands().size() && sum; ++i) {
    const auto part = log_linear(e.operands()[i]);
    if (!part || part->rate != sum->rate) return {};
    sum->factor += part->factor;
  }
  return sum;
}

std::optional<Exponential> log_linear(const Expression& e) {
  switch (e.kind()) {
    case Kind::kConstant:
      return Exponential{e.constant(), 0};
    case Kind::kExp:
      if (const auto exponent = as_linear(e.operands()[0]))
        return Exponential{std::exp(exponent->intercept), exponent->slope};
      return {};
    case Kind::kProduct:
      return product_of(e);
    case Kind::kSum:
      return sum_of(e);
    case Kind::kSqrt:
    case Kind::kPower: {
      const auto base = log_linear(e.operands()[0]);
      const Expression exponent = e.kind() == Kind::kSqrt ? Expression(0.5) : e.operands()[1];
      if (!base || base->factor <= 0 || !exponent.is_constant()) return {};
      return Exponential{std::pow(base->factor, exponent.constant()),
                         base->rate * exponent.constant()};
    }
    default:
      return {};
  }
}

}  // namespace

std::optional<Exponential> as_exponential(const Expression& phi) {
  const auto e = log_linear(phi);
  if (!e || e->rate == 0 || e->factor == 0) return {};
  if (!std::isfinite(e->factor) || !std::isfinite(e->rate)) return {};
  return e;
}

std::optional<Linear> as_linear(const Expression& expression) {
  const Expression slope = derivative(expression, Variable::kX);
  if (!slope.is_constant()) return {};
  const Expression intercept = expression - slope * Expression(Variable::kX);
  if (!intercept.is_constant()) return {};
  return Linear{slope.constant(), intercept.constant()};
}

std::optional<double> argument_without_value(const Expression& expression, double largest,
                                             double offset, double length) {
  const Program program({&expression, 1});
  std::vector<double> scratch;
  const auto has_value = [&](double x) {
    double value = 0;
    program.evaluate({x, offset, length}, scratch, {&value, 1});
    return std::isfinite(value);
  };
  if (!has_value(0)) return 0;
  const auto either = [&](double x) -> std::optional<double> {
    for (const double signed_x : {x, -x})
      if (x <= largest && !has_value(signed_x)) return signed_x;
    return {};
  };
  for (int i = 1; i <= 100; ++i)
    if (const auto x = either(i)) return x;
  for (int exponent = -40; std::ldexp(1.0, exponent) <= largest; ++exponent)
    if (const auto x = either(std::ldexp(1.0, exponent))) return x;
  constexpr int kSteps = 10'000;
  for (int i = 1; i <= kSteps; ++i)
    if (const auto x = either(largest * i / kSteps)) return x;
  return {};
}

}  // namespace lssar
