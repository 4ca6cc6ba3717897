// Branches that constants decide: what is left of a declaration, and what is left alone.
#include "codegen/source/constant_branches.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

SourceConstants constants() {
  SourceConstants result;
  result.qualified = {{"Config::kOn", 1}, {"Config::kOff", 0}, {"Config::kCols", 128}};
  result.derived = {{"kIsStaggered", 0}};
  return result;
}

std::string resolved(const std::string& text) { return resolve_branches(text, constants()); }

// A function of these lines and one more.
std::string body(const std::string& lines) { return "void f() {\n" + lines + "  last();\n}\n"; }

std::optional<int64_t> value(const std::string& expression) {
  const std::vector<Token> tokens = code_tokens(expression);
  return constant_value(tokens, constants());
}

TEST(ConstantValue, KnowsOperatorsAndTheirOrder) {
  EXPECT_EQ(value("1 + 2 * 3 == 7 && !Config::kOff"), 1);
  EXPECT_EQ(value("(Config::kCols + 7) / 8 % 5"), 1);
  EXPECT_EQ(value("Config::kCols > 100 ? 4 : 5"), 4);
  EXPECT_EQ(value("-Config::kCols < 0x10u"), 1);
  EXPECT_EQ(value("i64{Config::kCols} - 1 - 2"), 125);
  EXPECT_EQ(value("Shape::kIsStaggered || kIsStaggered"), 0);
}

TEST(ConstantValue, NeedsOnlyWhatDecides) {
  EXPECT_EQ(value("Config::kOff && sizeof(T) == 2"), 0);
  EXPECT_EQ(value("f(a, b) || Config::kOn"), 1);
  EXPECT_EQ(value("Config::kOn ? 3 : x"), 3);
}

TEST(ConstantValue, IsNothingWhereItIsNotKnown) {
  for (const char* text : {"x", "Config::kOther", "Config::kOn && x", "f(Config::kOn)", "1 / 0",
                           "0.5 < 1", "Config::kCols >> 1", "a.kIsStaggered.b", "", "!x"})
    EXPECT_FALSE(value(text).has_value()) << text;
}

TEST(ConstantBranches, KeepTheStatementsOfABlock) {
  EXPECT_EQ(resolved(body("  if constexpr (Config::kOn) {\n    a();\n    b();\n  }\n  c();\n")),
            body("  a();\n  b();\n  c();\n"));
  EXPECT_EQ(resolved(body("  if (Config::kOff) {\n    a();\n  } else {\n    b();\n  }\n  c();\n")),
            body("  b();\n  c();\n"));
  EXPECT_EQ(resolved(body("  if constexpr (Config::kOn)\n    call(a,\n         b);\n  c();\n")),
            body("  call(a,\n       b);\n  c();\n"));
}

TEST(ConstantBranches, KnowAVariableThatTheyDecide) {
  EXPECT_EQ(resolved(body("  // Why.\n  const bool is_skipped = Config::kOff && g();\n"
                          "  if (!is_skipped) a();\n  if (is_skipped) return;\n")),
            body("  a();\n"));
  EXPECT_EQ(resolved(body("  constexpr bool kLater = !Config::kOff;\n"
                          "  if constexpr (kLater) a();\n  if constexpr (!kLater) b();\n")),
            body("  a();\n"));
  const std::string unknown = body("  const bool is_skipped = g();\n  if (is_skipped) return;\n");
  EXPECT_EQ(resolved(unknown), unknown);
}

TEST(ConstantBranches, KeepTheMarginOfWhatComesAfterElse) {
  EXPECT_EQ(resolved(body("  if (Config::kOff && x) {\n    a();\n  } else if (x) {\n    b();\n"
                          "  } else {\n    c();\n  }\n")),
            body("  if (x) {\n    b();\n  } else {\n    c();\n  }\n"));
}

TEST(ConstantBranches, GoWithTheCommentAboveThem) {
  EXPECT_EQ(resolved(body("  a();\n  // Why b.\n  if (Config::kOff) b();\n  c();\n")),
            body("  a();\n  c();\n"));
}

TEST(ConstantBranches, KeepBracesWhereANameWouldBeDeclaredTwice) {
  EXPECT_EQ(resolved(body("  if (Config::kOn) {\n    int x = 1;\n    a(x);\n  }\n  int x = 2;\n"
                          "  b(x);\n")),
            body("  {\n    int x = 1;\n    a(x);\n  }\n  int x = 2;\n  b(x);\n"));
}

TEST(ConstantBranches, LoseBracesIfOnlyTheOtherBranchUsesTheName) {
  EXPECT_EQ(resolved(body("  if constexpr (Config::kOff) {\n    f(x);\n  } else {\n"
                          "    int x = g();\n    h(x);\n  }\n")),
            body("  int x = g();\n  h(x);\n"));
}

TEST(ConstantBranches, LeaveOutWhatComesAfterAReturn) {
  EXPECT_EQ(resolved("int f() {\n  if constexpr (!Config::kOff) return 1;\n  int x = g();\n"
                     "  return x + 1;\n}\n"),
            "int f() {\n  return 1;\n}\n");
  // A return of an inner block ends only that.
  EXPECT_EQ(resolved("int f() {\n  for (;;) {\n    if (Config::kOn) return 1;\n    a();\n  }\n"
                     "  return b();\n}\n"),
            "int f() {\n  for (;;) {\n    return 1;\n  }\n  return b();\n}\n");
}

TEST(ConstantBranches, EndAChainOfElse) {
  EXPECT_EQ(resolved(body("  if (x) {\n    a();\n  } else if (Config::kOff) {\n    b();\n  }\n")),
            body("  if (x) {\n    a();\n  }\n"));
  EXPECT_EQ(
      resolved(body("  if (x) {\n    a();\n  } else if (Config::kOn) {\n    b();\n  } else {\n"
                    "    c();\n  }\n")),
      body("  if (x) {\n    a();\n  } else {\n    b();\n  }\n"));
}

TEST(ConstantBranches, AreLeftWhereALoopWouldLoseItsBody) {
  const std::string text = body("  for (int i = 0; i < n; ++i)\n    if (Config::kOff) a(i);\n");
  EXPECT_NE(resolved(text).find("if (Config::kOff)"), std::string::npos);
}

TEST(ConstantBranches, ChooseBetweenValues) {
  EXPECT_EQ(resolved("int x = Config::kOn ? a : b ? c : d;\n"), "int x = a;\n");
  EXPECT_EQ(resolved("int x = Config::kOff ? a : b ? c : d;\n"), "int x = b ? c : d;\n");
  EXPECT_EQ(resolved("int x = y + (Config::kOn ? a : 0);\n"), "int x = y + a;\n");
  EXPECT_EQ(resolved("int x = f(y ? a : Config::kOn ? b : c, d);\n"), "int x = f(y ? a : b, d);\n");
  EXPECT_EQ(resolved("using A = typename Select<Config::kOff, Fp16, typename C::E>::Type;\n"),
            "using A = typename C::E;\n");
}

TEST(ConstantBranches, ShortenConditions) {
  EXPECT_EQ(resolved(body("  if (Config::kOn && x) a();\n")), body("  if (x) a();\n"));
  EXPECT_EQ(resolved(body("  const bool b = Config::kOff || x;\n  a(b);\n")),
            body("  const bool b = x;\n  a(b);\n"));
  // Else `y` would be negated with it.
  EXPECT_EQ(resolved(body("  if (z || Config::kOn && x) a();\n")),
            body("  if (z || Config::kOn && x) a();\n"));
}

TEST(ConstantBranches, DropVariablesThatNobodyReads) {
  EXPECT_EQ(resolved(body("  const float s = 2.0f;\n  if (Config::kOff) a(s);\n  b();\n")),
            body("  b();\n"));
  EXPECT_EQ(resolved(body("  u32* turn = nullptr;\n  if (Config::kOff) turn = a();\n  sum = 0;\n")),
            body("  sum = 0;\n"));
  const std::string unrolled = "  constexpr int kUnroll = 2;\n#pragma unroll kUnroll\n";
  EXPECT_EQ(resolved(body("  if (Config::kOff) a();\n" + unrolled + "  for (;;) a();\n")),
            body(unrolled + "  for (;;) a();\n"));
  const std::string with_call = body("  const float s = g();\n  if (Config::kOff) a(s);\n  b();\n");
  EXPECT_NE(resolved(with_call).find("g()"), std::string::npos);
}

TEST(ConstantBranches, LeaveWhatTheyDoNotKnow) {
  for (const std::string& text :
       {body("  if constexpr (kAligned && sizeof(T) == 2) {\n    a();\n  }\n"),
        body("  while (x && y) {\n  }\n"), body("  asm(\"if (Config::kOn)\");\n"),
        body("  // if (Config::kOff) a();\n  a(x ? 1 : 2);\n")})
    EXPECT_EQ(resolved(text), text);
}

}  // namespace
}  // namespace lssar
