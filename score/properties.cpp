#include "score/properties.h"

#include <cmath>
#include <limits>

#include "score/derivative.h"
#include "score/program.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

// Matches C exp(lambda x) with any lambda. A constant is the case lambda = 0.
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

// A sum matches if all its terms have the same rate.
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

std::vector<double> samples_of(const Interval& interval) {
  std::vector<double> samples = {0};
  const auto add_both = [&](double x) {
    samples.push_back(x);
    samples.push_back(-x);
  };
  for (int i = 1; i <= 100; ++i) add_both(i);
  for (int exponent = -40; exponent <= 40; ++exponent) add_both(std::ldexp(1.0, exponent));
  constexpr int kSteps = 20'000;
  for (int i = 0; i <= kSteps; ++i)
    samples.push_back(interval.low + (interval.high - interval.low) * i / kSteps);
  std::erase_if(samples, [&](double x) { return x < interval.low || x > interval.high; });
  return samples;
}

std::optional<double> argument_without_value(const Expression& expression, const Interval& interval,
                                             double offset, double length) {
  const Program program({&expression, 1});
  std::vector<double> scratch;
  for (const double x : samples_of(interval)) {
    double value = 0;
    program.evaluate({x, offset, length}, scratch, {&value, 1});
    if (!(std::abs(value) <= std::numeric_limits<float>::max())) return x;
  }
  return {};
}

}  // namespace lssar
