// Forms that kernels treat apart, and arguments without a value.
#include "score/properties.h"

#include <gtest/gtest.h>

#include <cmath>

#include "score/parse.h"

namespace lssar {
namespace {

Expression parsed(const char* text) { return *parse_expression(text, {Variable::kX}); }

TEST(AsExponential, FindsWhateverIsOne) {
  for (const auto& [text, factor, rate] : {std::tuple{"exp(x)", 1.0, 1.0},
                                           {"3 * exp(x / 2)", 3.0, 0.5},
                                           {"exp(2 * x + 1)", std::exp(1), 2.0},
                                           {"1 / exp(x)", 1.0, -1.0},
                                           {"2 ^ x", 1.0, std::log(2)},
                                           {"sqrt(exp(x))", 1.0, 0.5},
                                           {"exp(x) * exp(x)", 1.0, 2.0},
                                           {"exp(x) + exp(x + 1)", 1 + std::exp(1), 1.0},
                                           {"-exp(x)", -1.0, 1.0}}) {
    const auto e = as_exponential(parsed(text));
    ASSERT_TRUE(e.has_value()) << text;
    EXPECT_NEAR(e->factor, factor, 1e-12) << text;
    EXPECT_NEAR(e->rate, rate, 1e-12) << text;
  }
}

TEST(AsExponential, RefusesOthers) {
  for (const char* text : {"x", "1", "exp(x^2)", "exp(x) + 1", "exp(x) + exp(2 * x)", "x * exp(x)",
                           "softplus(x)", "sigmoid(x)", "exp(relu(x))", "exp(x) - exp(x)"})
    EXPECT_FALSE(as_exponential(parsed(text)).has_value()) << text;
}

TEST(AsLinear, HasSlopeAndIntercept) {
  const auto e = as_linear(parsed("3 * (x - 2) + x"));
  ASSERT_TRUE(e.has_value());
  EXPECT_EQ(e->slope, 4);
  EXPECT_EQ(e->intercept, -6);
  EXPECT_FALSE(as_linear(parsed("relu(x)")).has_value());
  EXPECT_FALSE(as_linear(parsed("x / x")).has_value());
}

TEST(ArgumentWithoutValue, IsFound) {
  const auto found = [](const char* text) {
    return argument_without_value(parsed(text), {-1000, 1000}, 1, 100);
  };
  EXPECT_EQ(found("1 / x"), 0);
  EXPECT_EQ(found("x / x"), 0);
  EXPECT_EQ(found("log(x)"), 0);
  EXPECT_EQ(found("log(x + 0.5)"), -1);
  EXPECT_EQ(found("1 / (x - 3)"), 3);
  EXPECT_EQ(found("1 / (x - 0.125)"), 0.125);
  EXPECT_NEAR(found("sqrt(901 - x)").value_or(0), 901.1, 1e-9);
  EXPECT_EQ(found("x^0.3"), -1);
  EXPECT_EQ(found("exp(x)"), 89);  // beyond float32
  for (const char* text :
       {"x", "softplus(x)", "x / (1 + abs(x))", "relu(x)^2", "exp(x / 20)", "sqrt(abs(x))"})
    EXPECT_EQ(found(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lssar
