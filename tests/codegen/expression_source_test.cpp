// Expressions as device source: what brackets they need, and what is written once.
#include "codegen/source/expression_source.h"

#include <gtest/gtest.h>

#include "score/parse.h"

namespace lssar {
namespace {

// What `phi` of the expression returns, with the lines before it.
std::string body_of(const char* text, ExpressionForm form = ExpressionForm::kGpuPrecise) {
  const auto expression =
      parse_expression(text, {Variable::kX, Variable::kOffset, Variable::kLength});
  EXPECT_TRUE(expression.ok()) << expression.status().to_string();
  if (!expression.ok()) return "";
  SourceWriter out;
  write_function(out, "phi", {"x", "b", "n"}, *expression, form);
  const std::string source = out.text();
  const size_t begin = source.find("{\n") + 2;
  return source.substr(begin, source.find("}\n") - begin);
}

TEST(ExpressionSource, BracketsWhatHoldsLessTightly) {
  EXPECT_EQ(body_of("x + 2"), "  return x + 2.0f;\n");
  EXPECT_EQ(body_of("2 * (x - b)"), "  return (-b + x) * 2.0f;\n");
  EXPECT_EQ(body_of("x / (N + 1)"), "  return x / (n + 1.0f);\n");
}

TEST(ExpressionSource, DividesOnlyByWhatIsBelowTheLine) {
  // A sum that begins with an inverse is no inverse.
  const std::string body = body_of("b * (1 / (x + 2) + 3)");
  EXPECT_NE(body.find("(1.0f / (x + 2.0f) + 3.0f)"), std::string::npos) << body;
  EXPECT_EQ(body_of("x / N"), "  return x / n;\n");
  EXPECT_EQ(body_of("x / N ^ 2"), "  return x / whole_power<2>(n);\n");
}

TEST(ExpressionSource, WritesSharedPartsOnce) {
  const std::string body = body_of("tanh(x)^2 + tanh(x)");
  EXPECT_EQ(body.find("tangent"), body.rfind("tangent")) << body;
}

// The same for a CPU: operands of operators may be floats, arguments of functions are vectors.
TEST(ExpressionSource, OfACpuIsOfVectors) {
  const auto body = [](const char* text) { return body_of(text, ExpressionForm::kCpu); };
  EXPECT_EQ(body("x + 2"), "  return x + 2.0f;\n");
  EXPECT_EQ(body("3"), "  return splat<Config>(3.0f);\n");
  EXPECT_EQ(body("relu(x)"), "  return maximum_or_nan<Config>(x, splat<Config>(0.0f));\n");
  EXPECT_EQ(body("x^3"), "  return whole_power<Config, 3>(x);\n");
  EXPECT_NE(body("where(x < -1, 2, x)")
                .find("choose<Config>(x < -1.0f, x, splat<Config>(-1.0f), splat<Config>(2.0f), x)"),
            std::string::npos);
  EXPECT_EQ(body("tanh(x)^2 + tanh(x)").find("  const Vector v1 = hyperbolic_tangent<Config>(x)"),
            0u);
}

TEST(ExpressionSource, LiteralsAreFloats) {
  EXPECT_EQ(float_literal(1), "1.0f");
  EXPECT_EQ(float_literal(0.1), "0.100000001f");
  EXPECT_EQ(float_literal(1e300), "infinity()");
  EXPECT_EQ(float_literal(-1e300), "-infinity()");
}

TEST(ExpressionSource, BreaksCommentsAtBlanks) {
  SourceWriter out;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "tanh(x) + ";
  write_comment(out, text + "x");
  size_t begin = 0;
  while (begin < out.text().size()) {
    const size_t end = out.text().find('\n', begin);
    EXPECT_LE(end - begin, 100u);
    EXPECT_TRUE(out.text().substr(begin).starts_with("// "));
    begin = end + 1;
  }
}

}  // namespace
}  // namespace lssar
