// The canonical form: what is equal, what stays, and that values never change.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "random_expression.h"
#include "score/parse.h"
#include "score/program.h"

namespace lssar {
namespace {

using Kind = Expression::Kind;

std::string canonical(const std::string& text) {
  const auto e = parse_expression(text, {Variable::kX, Variable::kOffset, Variable::kLength});
  return e.ok() ? to_string(*e) : e.status().message();
}

TEST(Simplify, OneFormForOneFunction) {
  for (const auto& [text, expected] : {
           std::pair{"x + x", "2 * x"},
           {"x * 2 + 3 * x - x", "4 * x"},
           {"2 * (x + 1) - 2", "2 * x"},
           {"x - (x + 1)", "-1"},
           {"x * x * x", "x^3"},
           {"(x^2)^3", "x^6"},
           {"(2 * x)^2", "4 * x^2"},
           {"exp(x) * exp(x)", "exp(2 * x)"},
           {"exp(x)^2 / exp(x)", "exp(x)"},
           {"1 / exp(-x)", "exp(x)"},
           {"e ^ x", "exp(x)"},
           {"max(0, x)", "relu(x)"},
           {"max(x, 0)^2", "relu(x)^2"},
           {"log(1 + exp(x))", "softplus(x)"},
           {"log1p(exp(x))", "softplus(x)"},
           {"1 / (1 + exp(-x))", "sigmoid(x)"},
           {"x / (1 + exp(-x))", "x * sigmoid(x)"},
           {"x ^ 0.5", "sqrt(x)"},
           {"0 * exp(x) + 1", "1"},
           {"where(1 < 2, x, -x)", "x"},
           {"where(x < 0, 3, 3)", "3"},
           {"x > 0", "character 3: an operator expected, not \">\"\n  x > 0\n    ^"},
           {"where(x > 0, x, 0)", "where(0 < x, x, 0)"},
           {"N * x / N / 2", "0.5 * N * x / N"},
       }) {
    EXPECT_EQ(canonical(text), expected) << text;
  }
}

// x / x is 1 but at 0, where it has no value.
TEST(Simplify, KeepsDivisions) {
  EXPECT_EQ(canonical("x / x"), "x / x");
  EXPECT_EQ(canonical("x^3 / x^2"), "x^3 / x^2");
  EXPECT_EQ(canonical("1 / x / x"), "1 / x^2");
  EXPECT_EQ(canonical("sqrt(x)^2"), "sqrt(x)^2");
}

// Terms in turn, with the operations of C++, beside the canonical form.
TEST(Simplify, KeepsValues) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(-3, 3);
  for (int i = 0; i < 2000; ++i) {
    const Expression a = test::random_expression(random, 3, true);
    const Expression b = test::random_expression(random, 3, true);
    const Arguments at{uniform(random), 0.75, 40};
    const double va = evaluate(a, at), vb = evaluate(b, at);
    const auto expect_near = [&](const Expression& e, double expected, const char* what) {
      if (!std::isfinite(expected)) return;
      const double got = evaluate(e, at);
      EXPECT_NEAR(got, expected, 1e-9 * (1 + std::abs(va) + std::abs(vb) + std::abs(expected)))
          << what << " of " << to_string(a) << " and " << to_string(b);
    };
    expect_near(a + b, va + vb, "sum");
    expect_near(a - b, va - vb, "difference");
    expect_near(a * b, va * vb, "product");
    if (std::abs(vb) > 1e-3) expect_near(a / b, va / vb, "quotient");
    expect_near(pow(a, 3.0), va * va * va, "cube");
    expect_near(min(a, b), std::min(va, vb), "min");
    expect_near(max(a, b), std::max(va, vb), "max");
    if (va != vb)
      expect_near(where(Comparison::kLess, a, b, a * 2.0, b), va < vb ? 2 * va : vb, "where");
    expect_near(apply(Kind::kSoftplus, a), value_of(Kind::kSoftplus, va), "softplus");
  }
}

TEST(Simplify, OrderOfOperandsDoesNotCount) {
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    const Expression a = test::random_expression(random, 3, true);
    const Expression b = test::random_expression(random, 3, true);
    EXPECT_EQ(a + b, b + a);
    EXPECT_EQ(a * b, b * a);
    EXPECT_EQ(min(a, b), min(b, a));
    EXPECT_EQ((a + b).hash(), (b + a).hash());
    EXPECT_EQ(to_string(a - a), "0");
  }
}

TEST(Evaluate, PassesNanOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* text : {"relu(x)", "min(relu(x), 6)", "max(3, x)", "where(x < 0, 1, 2)",
                           "where(x == 0, 1, 2)", "abs(x)", "softplus(x)", "sigmoid(x)"}) {
    EXPECT_TRUE(std::isnan(evaluate(*parse_expression(text, {Variable::kX}), {nan}))) << text;
  }
}

TEST(Program, HasEachSharedPartOnce) {
  const Expression x = Variable::kX;
  const Expression t = apply(Kind::kTanh, apply(Kind::kSoftplus, x));
  const Expression results[] = {x * t, t * t + x};
  const Program program(results);
  int num_tanh = 0;
  for (const Program::Step& step : program.steps()) num_tanh += step.kind == Kind::kTanh;
  EXPECT_EQ(num_tanh, 1);
}

}  // namespace
}  // namespace lssar
