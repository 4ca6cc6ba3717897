// Templates of Config as plain classes and functions, and the lines that this leaves.
#include "codegen/source/plain_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/source/statement_lines.h"
#include "codegen/source/tailored_source.h"

namespace lssar {
namespace {

using testing::HasSubstr;

TEST(WithoutConfig, MakesATemplateOfConfigAlonePlain) {
  EXPECT_EQ(without_config("// Why.\ntemplate <class Config>\nstruct A {\n  B<Config> b;\n};\n"),
            "// Why.\nstruct A {\n  B b;\n};\n");
  EXPECT_EQ(without_config("  template <class Config>\n  void f();\n"), "  void f();\n");
}

TEST(WithoutConfig, KeepsOtherParametersAndArguments) {
  EXPECT_EQ(without_config("template <class Config, int kRows>\nvoid f(A<Config, kRows> a);\n"),
            "template <int kRows>\nvoid f(A<kRows> a);\n");
  EXPECT_EQ(without_config("A<4, B<Config>> a = f<Config,\n  C>(Config::kRows < Config::kCols);"),
            "A<4, B> a = f<C>(Config::kRows < Config::kCols);");
}

TEST(WithoutConfig, TakesTheWordTemplateOfACallThatHasNoArgumentsLeft) {
  EXPECT_EQ(without_config("sum.template flush<Config>();"), "sum.flush();");
  EXPECT_EQ(without_config("sum.template flush<Config, 2>();"), "sum.template flush<2>();");
}

TEST(UnrollWords, StandBeforeTheLoop) {
  EXPECT_EQ(
      with_unroll_words("#pragma unroll\n  for (int i = 0; i < 4; ++i) a(i);\n"
                        "#pragma unroll 1\n  for (;;) b();\n"),
      "  LSSAR_UNROLL for (int i = 0; i < 4; ++i) a(i);\n#pragma unroll 1\n  for (;;) b();\n");
}

TEST(UnrollWords, LeaveNoLineTooLong) {
  const std::string loop = "for (int i = 0; i < kCount; ++i)";
  const std::string call = "call(" + std::string(54, 'a') + ");\n";
  EXPECT_EQ(with_unroll_words("#pragma unroll\n  " + loop + " " + call),
            "  LSSAR_UNROLL " + loop + "\n    " + call);
}

TEST(TemplateWords, GoFromNames) {
  EXPECT_EQ(without_template_words("  typename B::C c;\n  void f() { b.template g<1>(); }\n"),
            "  B::C c;\n  void f() { b.g<1>(); }\n");
}

TEST(TemplateWords, StayInTemplates) {
  EXPECT_TRUE(is_template("  template <class T>\n  void f(typename T::C c);\n"));
  EXPECT_FALSE(is_template("  void f() { b.template g<1>(); }\n"));
  const std::string source =
      tailor_source({{"config", "struct Config {\n};\n"},
                     {"file.cuh",
                      "template <class T>\nvoid g(typename T::C c) {\n  a();\n  b();\n}\n"
                      "template <class T>\nstruct A {\n  typename T::C c;\n};\n"
                      "template <class Config>\nstruct B {\n  typename D::C c;\n};\n"}},
                    "void kernel(A<B> x) { g<B>(x.c); }");
  EXPECT_THAT(source, HasSubstr("void g(typename T::C c)"));
  EXPECT_THAT(source, HasSubstr("  typename T::C c;\n"));
  EXPECT_THAT(source, HasSubstr("struct B {\n  D::C c;\n"));
}

TEST(JoinedStatements, StandOnOneLineWhereTheyFit) {
  EXPECT_EQ(joined_statements("void f(int a,\n       int b) {\n  call(a,\n       b);\n  g();\n}\n"),
            "void f(int a, int b) {\n  call(a, b);\n  g();\n}\n");
  EXPECT_EQ(joined_statements("int f() {\n  return 1;\n}\n"), "int f() { return 1; }\n");
  const std::string wide =
      "  call(" + std::string(60, 'a') + ",\n       " + std::string(40, 'b') + ");\n";
  EXPECT_EQ(joined_statements(wide), wide);
}

// Where words before them were removed, arguments move below the first one.
TEST(JoinedStatements, FillTheirLinesWithArguments) {
  const std::string a(40, 'a'), b(40, 'b'), c(60, 'c');
  const std::string filled = "  call(" + a + ", f(1, 2), " + b + ",\n       " + c + ");\n";
  for (const char* margin : {"       ", "               "})
    EXPECT_EQ(joined_statements("  call(" + a + ",\n" + margin + "f(1, 2),\n" + margin + b + ", " +
                                c + ");\n"),
              filled);
  EXPECT_EQ(joined_statements(filled), filled);
  const std::string branch = "  if (" + a + ")\n    call(" + b + ",\n         " + c + ");\n";
  EXPECT_EQ(joined_statements(branch), branch);
  EXPECT_EQ(joined_statements("  template <int kRows>\n  void f();\n"),
            "  template <int kRows> void f();\n");
}

TEST(JoinedStatements, LeaveCommentsDirectivesAssemblyAndHeadsAlone) {
  for (const char* text :
       {"  call(a,  // why\n       b);\n", "#pragma unroll\n  for (;;)\n    if (a) b();\n",
        "  asm volatile(\n      \"{\\n\"\n      \"}\");\n", "#define A(x) \\\n  f(x)\n"})
    EXPECT_EQ(joined_statements(text), text);
}

}  // namespace
}  // namespace lssar
