// Symbolic derivatives beside finite differences, and the convention at kinks.
#include "score/derivative.h"

#include <gtest/gtest.h>

#include <cmath>

#include "random_expression.h"
#include "score/known.h"
#include "score/parse.h"
#include "score/program.h"

namespace lssar {
namespace {

double slope_at(const std::string& text, double x) {
  const Expression phi = *parse_expression(text, {Variable::kX});
  return evaluate(derivative(phi, Variable::kX), {x});
}

// Central differences with steps h and h / 2; where they disagree a kink is near, and the test is
// the one-sided differences of the next.
struct Difference {
  double value, uncertainty;
};
Difference difference(const Expression& e, const Arguments& at, double h) {
  const auto central = [&](double step) {
    return (evaluate(e, {at.x + step, at.offset, at.length}) -
            evaluate(e, {at.x - step, at.offset, at.length})) /
           (2 * step);
  };
  const double coarse = central(h), fine = central(h / 2);
  return {fine + (fine - coarse) / 3, std::abs(fine - coarse)};
}

TEST(Derivative, IsThatOfFiniteDifferences) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(-3, 3);
  int num_tested = 0;
  for (int i = 0; i < 2000; ++i) {
    const Expression e = test::random_expression(random, 4, i % 2 == 0);
    const Expression d = derivative(e, Variable::kX);
    const Arguments at{uniform(random), 0.75, 40};
    const Difference expected = difference(e, at, 1e-4);
    const double got = evaluate(d, at);
    if (!std::isfinite(expected.value) || !std::isfinite(got)) continue;
    // Rounding of e over h; and what the steps disagree by.
    const double size = std::abs(evaluate(e, at)) + std::abs(got) + 1;
    if (expected.uncertainty > 1e-5 * size) continue;
    ++num_tested;
    EXPECT_NEAR(got, expected.value, 1e-6 * size)
        << to_string(e) << " at " << at.x << ": " << to_string(d);
  }
  EXPECT_GT(num_tested, 1500);
}

TEST(Derivative, OfNamedActivations) {
  for (const NamedActivation& known : kNamedActivations) {
    const Expression phi = *named_activation(known.name);
    for (const double x : {-20.0, -3.0, -0.5, 0.25, 1.0, 5.0, 7.0, 20.0}) {
      const Difference expected = difference(phi, {x}, 1e-4);
      const double got = evaluate(derivative(phi, Variable::kX), {x});
      EXPECT_NEAR(got, expected.value, 1e-7 * (1 + std::abs(got))) << known.name << " at " << x;
    }
  }
}

TEST(Derivative, AtKinksIsOneSidedOrZero) {
  EXPECT_EQ(slope_at("relu(x)", 0), 0);
  EXPECT_EQ(slope_at("max(0, x)", 0), 0);
  EXPECT_EQ(slope_at("relu(x)^2", 0), 0);
  EXPECT_EQ(slope_at("min(relu(x), 6)", 0), 0);
  EXPECT_EQ(slope_at("min(relu(x), 6)", 6), 0);
  EXPECT_EQ(slope_at("min(relu(x), 6)", 3), 1);
  EXPECT_EQ(slope_at("abs(x)", 0), 0);
  EXPECT_EQ(slope_at("abs(x)", -2), -1);
  EXPECT_EQ(slope_at("where(x < 0, 2 * x, 3 * x)", 0), 3);
  EXPECT_EQ(slope_at("where(x <= 0, 2 * x, 3 * x)", 0), 2);
  // The operand that comes last in the text has the say: x after x^2.
  EXPECT_EQ(to_string(*parse_expression("max(x, x^2)", {Variable::kX})), "max(x^2, x)");
  EXPECT_EQ(slope_at("max(x, x^2)", 1), 1);
  EXPECT_EQ(slope_at("min(x^2, x)", 1), 1);
}

TEST(Derivative, IsShortForSimpleFunctions) {
  for (const auto& [text, expected] : {std::pair{"softplus(x)", "sigmoid(x)"},
                                       {"exp(x)", "exp(x)"},
                                       {"relu(x)", "where(0 < x, 1, 0)"},
                                       {"x", "1"},
                                       {"relu(x)^2", "2 * where(0 < x, 1, 0) * relu(x)"},
                                       {"3 * x^2 + x", "6 * x + 1"}}) {
    const Expression phi = *parse_expression(text, {Variable::kX});
    EXPECT_EQ(to_string(derivative(phi, Variable::kX)), expected) << text;
  }
}

}  // namespace
}  // namespace lssar
