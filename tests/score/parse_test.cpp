// Text to expressions and back; errors point at the character.
#include "score/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "random_expression.h"
#include "score/known.h"
#include "score/program.h"
#include "score/score_text.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<Variable> kPhi = {Variable::kX};
const std::vector<Variable> kPsi = {Variable::kX, Variable::kOffset, Variable::kLength};

double value(const std::string& text, double x) {
  const auto e = parse_expression(text, kPhi);
  EXPECT_TRUE(e.ok()) << text << ": " << e.status().message();
  return e.ok() ? evaluate(*e, {x}) : 0;
}

std::string error(const std::string& text) {
  const auto e = parse_expression(text, kPhi);
  EXPECT_FALSE(e.ok()) << text;
  if (e.ok()) return "";
  EXPECT_EQ(e.status().code(), StatusCode::kInvalidArgument);
  return e.status().message();
}

TEST(ParseExpression, BindsAsMathematicsDoes) {
  EXPECT_EQ(value("1 + 2 * 3", 0), 7);
  EXPECT_EQ(value("(1 + 2) * 3", 0), 9);
  EXPECT_EQ(value("2 ^ 3 ^ 2", 0), 512);
  EXPECT_EQ(value("-x ^ 2", 3), -9);
  EXPECT_EQ(value("(-x) ^ 2", 3), 9);
  EXPECT_EQ(value("x ^ -2", 2), 0.25);
  EXPECT_EQ(value("8 / 4 / x", 2), 1);
  EXPECT_EQ(value("8 - 4 - x", 2), 2);
  EXPECT_EQ(value("--x", 2), 2);
  EXPECT_EQ(value("2 * -x", 2), -4);
  EXPECT_EQ(value("+x - -1", 2), 3);
  EXPECT_EQ(value(" 1e-3*x\t", 2), 0.002);
  EXPECT_EQ(value(".5 * x", 2), 1);
}

TEST(ParseExpression, KnowsEveryFunction) {
  EXPECT_EQ(value("min(x, 2) + max(x, 2)", 3), 5);
  EXPECT_EQ(value("relu(x) + abs(-x)", 3), 6);
  EXPECT_EQ(value("relu(x)", -3), 0);
  EXPECT_DOUBLE_EQ(value("log(exp(x)) + log1p(x) - log(1 + x)", 3), 3);
  EXPECT_DOUBLE_EQ(value("sqrt(x) ^ 2", 3), 3);
  EXPECT_DOUBLE_EQ(value("tanh(x) + erf(x)", 0.5), std::tanh(0.5) + std::erf(0.5));
  EXPECT_DOUBLE_EQ(value("sigmoid(x) * (1 + exp(-x))", 2), 1);
  EXPECT_DOUBLE_EQ(value("softplus(x) - log(1 + exp(x))", 2), 0);
  EXPECT_DOUBLE_EQ(value("pi + e + 0 * x", 2), M_PI + M_E);
}

TEST(ParseExpression, KnowsEveryComparison) {
  for (const auto& [sign, below, same, above] : {std::tuple{"<", 1, 0, 0},
                                                 {"<=", 1, 1, 0},
                                                 {">", 0, 0, 1},
                                                 {">=", 0, 1, 1},
                                                 {"==", 0, 1, 0},
                                                 {"!=", 1, 0, 1}}) {
    const std::string text = std::string("where(x ") + sign + " 2, 1, 0)";
    EXPECT_EQ(value(text, 1), below) << text;
    EXPECT_EQ(value(text, 2), same) << text;
    EXPECT_EQ(value(text, 3), above) << text;
  }
}

TEST(ParseExpression, ErrorsPointAtTheCharacter) {
  EXPECT_THAT(
      error("relu(x)^2 + 0.01*y"),
      StartsWith("character 18: \"y\" is not known: allowed are x, pi, e, and the functions "
                 "min, max, relu, abs, exp, log, log1p, sqrt, tanh, erf, sigmoid, "
                 "softplus, where\n  relu(x)^2 + 0.01*y\n                   ^"));
  EXPECT_THAT(error("rleu(x)"), StartsWith("character 1: no function is called \"rleu\""));
  EXPECT_THAT(error("relu(x"), StartsWith("character 7: \")\" expected, not the end: relu has 1 "
                                          "operand"));
  EXPECT_THAT(error("2 * (x + 1"), HasSubstr("the bracket was opened at character 5"));
  EXPECT_THAT(error("x)"), StartsWith("character 2: an operator expected, not \")\""));
  EXPECT_THAT(error("x x"), StartsWith("character 3: an operator expected, not \"x\""));
  EXPECT_THAT(error(""), StartsWith("character 1: a value expected, not the end"));
  EXPECT_THAT(error("x + "), StartsWith("character 5: a value expected, not the end"));
  EXPECT_THAT(error("x ** 2"), StartsWith("character 3: a power is written a ^ b"));
  EXPECT_THAT(error("max(x)"), StartsWith("character 6: \",\" expected, not \")\": max has 2"));
  EXPECT_THAT(error("exp(x, 2)"), StartsWith("character 6: \")\" expected, not \",\": exp has 1"));
  EXPECT_THAT(error("where(x, 1, 0)"), StartsWith("character 8: a comparison"));
  EXPECT_THAT(error("exp + 1"), StartsWith("character 5: \"(\" expected after exp"));
  EXPECT_THAT(error("x / 0"), StartsWith("character 3: division by 0"));
  EXPECT_THAT(error("x + log(0)"), StartsWith("character 5: this has no finite value"));
  EXPECT_THAT(error("1e999"), StartsWith("character 1: not a number that a double holds"));
  EXPECT_THAT(error("x + \x1b[2J"), HasSubstr("not \"\\x1b\""));
  EXPECT_THAT(error(std::string("x\0+1", 4)), HasSubstr("not \"\\x00\""));
  EXPECT_THAT(error("x + N"), HasSubstr("\"N\" is not known: allowed are x, pi"));
}

TEST(ParseExpression, PsiHasThreeVariables) {
  const auto e = parse_expression("(x - b) / N", kPsi);
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(evaluate(*e, {7, 1, 3}), 2);
}

TEST(ParseExpression, LimitsLengthAndDepth) {
  std::string sum = "x";
  for (int i = 0; i < 10'000; ++i) sum += " + x * " + std::to_string(i);
  EXPECT_THAT(error(sum), HasSubstr("more than 1000 numbers, variables and operations"));
  EXPECT_THAT(error(std::string(100'000, '(')), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(error(std::string(100'000, '-') + "x"), HasSubstr("nested deeper than 100"));
}

TEST(ParseExpression, ReadsBackWhatIsPrinted) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Expression e = test::random_expression(random, 4, i % 2 == 0);
    const std::string text = to_string(e);
    const auto back = parse_expression(text, kPsi);
    ASSERT_TRUE(back.ok()) << text << "\n" << back.status().message();
    EXPECT_EQ(to_string(*back), text);
    EXPECT_TRUE(*back == e) << text;
  }
}

TEST(NamedActivation, EachHasItsName) {
  for (const NamedActivation& known : kNamedActivations) {
    const auto phi = named_activation(known.name);
    ASSERT_TRUE(phi.has_value());
    EXPECT_STREQ(activation_name(*phi), known.name);
    EXPECT_EQ(*parse_expression(to_string(*phi), kPhi), *phi);
  }
  EXPECT_FALSE(named_activation("swish").has_value());
  EXPECT_EQ(activation_name(*parse_expression("relu(x)^3", kPhi)), nullptr);
}

TEST(ScoreText, MessagesAreShort) {
  const std::string many(100'000, 'x');
  for (const std::string& text : {"phi=" + many, "phi=" + many + "(x)", many, "softmax," + many,
                                  "softmax,scale=1," + many, many + "=1," + many + "=1"}) {
    const auto score = parse_score(text);
    ASSERT_FALSE(score.ok());
    EXPECT_LT(score.status().message().size(), 500u) << text.substr(0, 20);
  }
  EXPECT_THAT(parse_score("soft\nmax").status().message(), HasSubstr("soft\\nmax"));
}

TEST(ScoreText, OfJsonIsReadStrictly) {
  EXPECT_TRUE(parse_score(R"({"phi": "x", "normalizer": "sum_abs"})").ok());
  const auto twice = parse_score(R"({"phi": "x", "phi": "exp"})");
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.status().message(), HasSubstr("score: "));
  EXPECT_THAT(twice.status().message(), HasSubstr("has this key twice"));
  EXPECT_THAT(parse_score("{\"phi\": ").status().message(), StartsWith("score: "));
}

}  // namespace
}  // namespace lssar
