// Which declarations of a source are kept: those that its roots reach.
#include "codegen/source/tailored_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string tailored(const std::string& text, const std::string& roots,
                     const std::string& config = "struct Config {\n};\n") {
  return tailor_source({{"config", config}, {"file.cuh", text}}, roots);
}

TEST(TailoredSource, KeepsWhatIsReachedWithItsComment) {
  const std::string source = tailored(
      "// The file.\n\nnamespace lssar_device {\n\n// Used.\nvoid used() {\n  helper();\n}\n\n"
      "// Not used.\nvoid unused() {\n  other();\n}\n\nvoid helper() {\n}\n\n"
      "}  // namespace lssar_device\n",
      "void kernel() { used(); }");
  EXPECT_EQ(source,
            "namespace lssar_device {\n\n// ---- file.cuh: The file.\n"
            "// Used.\nvoid used() { helper(); }\n\nvoid helper() {\n}\n\n");
}

TEST(TailoredSource, KeepsTheFirstParagraphOfEachComment) {
  const std::string words = "words words words words words words words words words words";
  const std::string source = tailored("// " + words + "\n// " + words +
                                          "\n//\n// For readers of the template.\n\n"
                                          "// What it is.\n//\n// Why it is so.\nvoid used() {\n}\n"
                                          "struct A {\n  int x;  // data\n\n  // Why.\n  //\n"
                                          "  // History.\n  void f() {\n  }\n};\n",
                                      "void kernel(A a) { used(); a.f(); }");
  // A title's further lines are indented, so that they differ from the next comment.
  EXPECT_THAT(source, HasSubstr("// ---- file.cuh: words"));
  EXPECT_THAT(source, HasSubstr("\n//      words"));
  EXPECT_THAT(source, HasSubstr("words\n// What it is.\nvoid used()"));
  EXPECT_THAT(source, HasSubstr("  // Why.\n  void f()"));
  for (const char* text : {"readers", "Why it is so", "History"})
    EXPECT_THAT(source, Not(HasSubstr(text)));
}

TEST(TailoredSource, DropsNamesOfConstantsThatDecidedABranchFromComments) {
  const std::string source = tailored(
      "// The file.\n\n// kIsOn: clears the first.\ntemplate <class Config>\nvoid used() {\n"
      "  int a = 1;  // kIsOn: of the first\n  int b = 2;  // kIsOn\n"
      "  // kRows: what is left.\n  if constexpr (Config::kIsOn) f(a, b, Config::kRows);\n"
      "  // kIsOn: a is the first.\n  // kIsOn\n  f(a, b);\n}\n",
      "void kernel() { used(); }",
      "struct Config {\n  static constexpr bool kIsOn = true;\n  static constexpr int kRows = 3;\n"
      "};\n");
  EXPECT_THAT(source, HasSubstr("// Clears the first.\nvoid used() {\n"
                                "  int a = 1;  // of the first\n  int b = 2;\n"
                                "  // kRows: what is left.\n  f(a, b, Config::kRows);\n"
                                "  // a is the first.\n  f(a, b);\n}\n"));
}

std::string tailored_kernels(const std::string& text, const std::string& entries,
                             const std::string& config = "struct Config {\n};\n") {
  return tailor_kernels({{"config", config}, {"file.cuh", text}}, entries, "kKept");
}

TEST(TailoredKernels, CallClassesByTheirShortestName) {
  const std::string source = tailored_kernels(
      "template <class Config>\nstruct LongShape {\n  static constexpr int kRows = f();\n};\n\n"
      "template <class Config>\nstruct LongConsumer {\n  using Shape = LongShape<Config>;\n\n"
      "  int rows = Shape::kRows;  // of LongShape\n};\n\n"
      "// See LongConsumer.\ntemplate <class Config>\nvoid run() {\n"
      "  using Consumer = LongConsumer<Config>;\n"
      "  using Shape = typename Consumer::Shape;\n"
      "  Consumer c;\n  g(c, Consumer::Shape::kRows);\n}\n",
      "static_assert(lssar_device::LongShape::kRows == 1);\nvoid kernel() { run(); }\n");
  EXPECT_THAT(source, HasSubstr("struct Shape {\n"));
  EXPECT_THAT(source, HasSubstr("struct Consumer {\n  int rows = Shape::kRows;  // of Shape\n"));
  EXPECT_THAT(source, HasSubstr("// See Consumer.\nvoid run() {\n  Consumer c;\n"));
  EXPECT_THAT(source, HasSubstr("  g(c, Shape::kRows);\n"));
  EXPECT_THAT(source, HasSubstr("static_assert(lssar_device::Shape::kRows == 1);\n"));
  for (const char* text : {"using", "LongShape", "LongConsumer"})
    EXPECT_THAT(source, Not(HasSubstr(text)));
}

TEST(TailoredKernels, KeepAliasesThatMeanSeveralThings) {
  const std::string source = tailored_kernels(
      "struct FirstShape {\n  int x;\n};\nstruct SecondShape {\n  int x;\n};\n"
      "struct Rows {\n  using Shape = FirstShape;\n  Shape s;\n};\n"
      "struct Cols {\n  using Shape = SecondShape;\n  Shape s;\n};\n"
      "template <class Other>\nstruct Pair {\n  using Other2 = Rows;\n  Other a;\n  Other2 b;\n};\n"
      "struct LongOther {\n  using Other = LongOther;\n  Other* next;\n};\n",
      "void kernel(Cols c, Pair<int> p, LongOther o) {}\n");
  for (const char* text :
       {"struct FirstShape {", "using Shape = FirstShape;", "struct SecondShape {",
        "using Shape = SecondShape;", "using Other = LongOther;"})
    EXPECT_THAT(source, HasSubstr(text));
}

TEST(TailoredKernels, HaveTheTypesOfConfigOutsideOfIt) {
  const std::string source = tailored_kernels(
      "template <class T>\nstruct Tile {\n  using Element = T;\n  Element x;\n};\n"
      "template <class Config>\nstruct Rows {\n  using Element = typename Config::Element;\n"
      "  Element y;\n};\n"
      "template <class T>\nvoid f(typename Config::Element x, typename T::Element z) {\n}\n",
      "void kernel(Rows r, Tile<u16> t) { f<Tile<u16>>(r.y, t.x); }\n",
      "struct Config {\n  using Element = u16;\n  static constexpr int kKept = 1;\n};\n");
  EXPECT_THAT(source, HasSubstr("using Element = u16;\nstruct Config {\n"));
  EXPECT_THAT(source, HasSubstr("  static constexpr int kKept = 1;\n"));
  EXPECT_THAT(source, HasSubstr("struct Rows {\n  Element y;\n"));
  EXPECT_THAT(source, HasSubstr("void f(Element x, typename T::Element z)"));
  EXPECT_THAT(source, HasSubstr("  using Element = T;\n"));
}

TEST(TailoredSource, LeavesOutFilesWithNothingToKeep) {
  EXPECT_EQ(tailored("// The file.\n\nvoid unused() {\n}\n", "void kernel() {}"),
            "namespace lssar_device {\n\n");
}

TEST(TailoredSource, KeepsOverloadsByTheNumberOfArguments) {
  const std::string source = tailored(
      "void load(int a) {\n}\nvoid load(int a, int b, int c = 0) {\n}\nvoid load(A<int, 2> a) "
      "{\n}\n",
      "void kernel() { load(f(1, 2), g<3, 4>(5)); }");
  EXPECT_THAT(source, HasSubstr("void load(int a, int b, int c = 0)"));
  EXPECT_THAT(source, Not(HasSubstr("void load(int a) {")));
  EXPECT_THAT(source, Not(HasSubstr("A<int, 2>")));
}

TEST(TailoredSource, KeepsOverloadsForClassesThatExist) {
  const std::string source = tailored(
      "struct Wide {\n  int x;\n};\nstruct Narrow {\n  int x;\n};\nstruct Other {\n  int x;\n};\n"
      "int get(Wide* w) {\n}\nint get(Narrow* n) {\n}\nint alone(Other o) {\n}\n",
      "void kernel(Narrow* n) { get(n); alone({1}); }");
  EXPECT_THAT(source, HasSubstr("int get(Narrow* n)"));
  EXPECT_THAT(source, Not(HasSubstr("Wide")));
  EXPECT_THAT(source, HasSubstr("int alone(Other o)"));  // its argument need not name the class
}

TEST(TailoredSource, JoinsNamespacesThatPartsUse) {
  const std::string source = tailored(
      "namespace sizes {\nconstexpr int kSize = 1;\n}  // namespace sizes\n"
      "namespace lssar_device {\nusing namespace sizes;\n\nusing u16 = unsigned short;\n"
      "}  // namespace lssar_device\n",
      "void kernel(u16 x) { f(kSize); }");
  EXPECT_THAT(source, HasSubstr("constexpr int kSize = 1;\n"));
  EXPECT_THAT(source, HasSubstr("\nusing u16"));
  EXPECT_THAT(source, Not(HasSubstr("using namespace")));
}

TEST(TailoredSource, KeepsMembersThatAreUsed) {
  const std::string source = tailored(
      "struct Tile {\n  static_assert(sizeof(int) == 4, \"stays\");\n  static constexpr int kUsed "
      "= 1;\n"
      "  static constexpr int kUnused = 2;\n  int data;\n  alignas(64) float line[16];\n"
      "  void used() {\n  }\n  void unused() {\n"
      "  }\n};\n",
      "void kernel() { Tile t; t.used(); f(Tile::kUsed); }");
  EXPECT_THAT(source, HasSubstr("stays"));
  EXPECT_THAT(source, HasSubstr("kUsed = 1"));
  EXPECT_THAT(source, HasSubstr("int data;"));  // the class may be initialised by a list
  EXPECT_THAT(source, HasSubstr("float line[16];"));
  EXPECT_THAT(source, HasSubstr("void used()"));
  EXPECT_THAT(source, Not(HasSubstr("kUnused")));
  EXPECT_THAT(source, Not(HasSubstr("void unused()")));
}

TEST(TailoredSource, LeavesOutDataOfAClassWithAConstructor) {
  const std::string source =
      tailored("struct Tile {\n  int used;\n  int unused;\n  Tile(int x) : used(x) {}\n};\n",
               "void kernel() { Tile t(1); }");
  EXPECT_THAT(source, HasSubstr("int used;"));
  EXPECT_THAT(source, Not(HasSubstr("int unused;")));
}

TEST(TailoredSource, KeepsMacrosAndConditionalLinesWhole) {
  const std::string lines =
      "#ifdef DEBUG\nstruct Limit {\n  int n;\n};\n#else\nstruct Limit {\n};\n#endif\n";
  EXPECT_THAT(tailored(lines + "#define UNUSED 1\n", "void kernel() { Limit l; }"),
              AllOf(HasSubstr(lines), Not(HasSubstr("UNUSED"))));
  EXPECT_THAT(tailored(lines, "void kernel() {}"), Not(HasSubstr("Limit")));
}

TEST(TailoredSource, KeepsWhatADirectiveNames) {
  EXPECT_THAT(tailored("constexpr int kUnroll = 2;\n\nvoid used() {\n#pragma unroll kUnroll\n"
                       "  for (;;) f();\n}\n",
                       "void kernel() { used(); }"),
              HasSubstr("kUnroll = 2"));
}

TEST(TailoredSource, DecidesBranchesByConfigAndWhatFollowsFromIt) {
  const std::string config =
      "struct Config {\n  static constexpr int kCols = 96;\n"
      "  static constexpr bool kOff = false;\n};\n";
  const std::string source = tailored(
      "template <class Config>\nstruct Shape {\n"
      "  static constexpr bool kIsWide = Config::kCols > 64;\n};\n\n"
      "template <class Config>\nvoid run() {\n  if constexpr (Shape<Config>::kIsWide) {\n"
      "    wide();\n  } else {\n    narrow();\n  }\n}\n\nvoid wide() {\n}\nvoid narrow() {\n}\n",
      "void kernel() { run(); }", config);
  EXPECT_THAT(source, HasSubstr("wide()"));
  EXPECT_THAT(source, Not(HasSubstr("narrow")));
}

TEST(TailoredSource, LeavesOutWhatConfigSaysButNothingReads) {
  const std::string source = tailored(
      "static_assert(Config::kCols % 8 == 0, \"whole vectors\");\n"
      "static_assert(sizeof(int) == Config::kCols, \"unknown\");\n"
      "template <class Config>\nvoid run() {\n  f(Config::kCols);\n}\n",
      "void kernel() { run(); }",
      "struct Config {\n  static constexpr int kCols = 96;\n  static constexpr int kRows = "
      "8;\n};\n");
  EXPECT_THAT(source, HasSubstr("kCols = 96"));
  EXPECT_THAT(source, Not(HasSubstr("kRows")));
  EXPECT_THAT(source, Not(HasSubstr("whole vectors")));
  EXPECT_THAT(source, HasSubstr("unknown"));
}

TEST(TailoredSource, DecidesFunctionsThatReturnAConstant) {
  const std::string source = tailored(
      "template <class Config>\nstruct Rows {\n"
      "  bool skips() const { return Config::kSkips && some; }\n"
      "  bool masks() const { return some; }\n  bool some;\n};\n"
      "template <class Config>\nvoid run(Rows<Config> rows) {\n  if (rows.skips()) a();\n"
      "  if (rows.masks()) b();\n}\nvoid a() {\n}\nvoid b() {\n}\n",
      "void kernel(Rows rows) { run(rows); }",
      "struct Config {\n  static constexpr bool kSkips = false;\n};\n");
  EXPECT_THAT(source, Not(HasSubstr("skips")));
  EXPECT_THAT(source, Not(HasSubstr("a()")));
  EXPECT_THAT(source, HasSubstr("if (rows.masks()) b();"));
}

TEST(TailoredSource, TakesTheParameterOfAClassThatNamesItself) {
  const std::string source = tailored(
      "template <int kStages>\nstruct Ring {\n  Ring() {\n    if constexpr (kStages == 1) a();\n"
      "  }\n};\nvoid a() {\n}\n",
      "void kernel() { Ring<3> ring; }");
  EXPECT_THAT(source, Not(HasSubstr("a()")));
}

TEST(TailoredSource, TakesATemplateParameterThatIsTheSameEverywhere) {
  const std::string once =
      "template <bool kOn>\nvoid inner() {\n  if constexpr (kOn) a();\n  b();\n}\n\n"
      "template <bool kOn>\nvoid outer() {\n  inner<kOn>();\n}\n\nvoid a() {\n}\nvoid b() {\n}\n";
  EXPECT_THAT(tailored(once, "void kernel() { outer<false>(); }"), Not(HasSubstr("a()")));
  EXPECT_THAT(tailored(once, "void kernel() { outer<false>(); outer<true>(); }"),
              HasSubstr("if constexpr (kOn) a();"));
  const std::string caller = once + "void caller() {\n  outer<false>();\n}\n";
  EXPECT_THAT(tailored(caller, "void kernel() { caller(); }"), Not(HasSubstr("a()")));
  const std::string both = caller + "void other() {\n  outer<true>();\n}\n";
  EXPECT_THAT(tailored(both, "void kernel() { caller(); other(); }"), HasSubstr("a()"));
}

TEST(TailoredSource, AUseWithoutArgumentsIsOfAnotherFunctionOfTheName) {
  const std::string source = tailored(
      "template <int kBlocks>\nvoid release(int x) {\n  if constexpr (kBlocks == 1) {\n"
      "    alone();\n  } else {\n    all();\n  }\n}\n"
      "struct Turns {\n  void release() {\n    next();\n  }\n};\n",
      "void kernel(Turns t) { t.release(); release<1>(2); }");
  EXPECT_THAT(source, HasSubstr("alone();"));
  EXPECT_THAT(source, Not(HasSubstr("all();")));
}

TEST(TailoredSource, DoesNotMixUpNamesThatMeanTwoThings) {
  const std::string source = tailored(
      "template <class Config>\nstruct A {\n  static constexpr int kCols = 1;\n};\n"
      "template <class Config>\nstruct B {\n  static constexpr int kCols = 2;\n};\n"
      "void run() {\n  if (A::kCols == 1) a();\n  if (B::kCols == 1) b();\n"
      "  if (kCols == 1) c();\n}\nvoid a() {\n}\nvoid b() {\n}\nvoid c() {\n}\n",
      "void kernel() { run(); }");
  EXPECT_THAT(source, HasSubstr("\n  a();"));
  EXPECT_THAT(source, Not(HasSubstr("b()")));
  EXPECT_THAT(source, HasSubstr("if (kCols == 1) c();"));
}

TEST(TailoredSource, KnowsTheElementOfAKernelButNotThatOfEveryTile) {
  const std::string text =
      "template <class T, int ROWS>\nstruct Tile {\n  using Element = T;\n"
      "  static_assert(sizeof(T) == 2, \"narrow\");\n  u32 base;\n};\n"
      "template <class T>\nvoid store(T* at) {\n  if constexpr (sizeof(T) == 4) {\n"
      "    wide();\n  } else {\n    narrow();\n  }\n}\n"
      "template <class Config>\nstruct Rows {\n  using Element = typename Config::Element;\n"
      "  Tile<Element, 8> tile;\n  Element* at;\n";
  const std::string config = "struct Config {\n  using Element = Bf16;\n};\n";
  const std::string end = "};\nvoid wide() {\n}\nvoid narrow() {\n}\n";
  const std::string own = tailored(text + "  void run() {\n    store<Element>(at);\n  }\n" + end,
                                   "void kernel(Rows rows) { rows.run(); }", config);
  EXPECT_THAT(own, Not(HasSubstr("wide()")));
  EXPECT_THAT(own, Not(HasSubstr("static_assert")));
  const std::string of_tile = tailored(
      text + "  template <class X>\n  void run() {\n    store<typename X::Element>(at);\n  }\n" +
          end,
      "void kernel(Rows rows) { rows.run<Tile>(); }", config);
  EXPECT_THAT(of_tile, HasSubstr("wide()"));
}

TEST(TailoredSource, NamesMembersOfArgumentsWithoutACall) {
  const std::string accessors =
      "i64 seq_q(const Params& params) { return params.seq_q; }\n"
      "struct Rows {\n  int head_of(const Place& place, int half) const { return place.head; }\n"
      "  int first;\n};\n";
  const std::string source =
      tailored(accessors +
                   "void run(Rows rows) {\n  f(seq_q(own.params), rows.first);\n"
                   "  g(rows.head_of(place, 1), seq_q(params) + 1);\n}\n",
               "void kernel(Rows rows) { run(rows); }");
  EXPECT_THAT(source, HasSubstr("f(own.params.seq_q, rows.first);"));
  EXPECT_THAT(source, HasSubstr("g(place.head, params.seq_q + 1);"));
  EXPECT_THAT(source, Not(HasSubstr("return")));
  // Not where an argument is more than a name.
  const std::string kept =
      tailored(accessors + "void run() {\n  f(seq_q(all()));\n}\n", "void kernel() { run(); }");
  EXPECT_THAT(kept, HasSubstr("f(seq_q(all()));"));
  EXPECT_THAT(kept, HasSubstr("return params.seq_q;"));
}

TEST(TailoredSource, NamesArgumentsWithoutACall) {
  const std::string accessor =
      "template <class Config>\nint tile_at(const KeyTiles<Config>& tiles, int n) {\n"
      "  if constexpr (Config::kHasWindow) return n + tiles.skipped;\n  return n;\n}\n";
  const auto source = [&](const std::string& use, const std::string& has_window) {
    return tailored(
        accessor + "template <class Config>\nvoid run() {\n  " + use + "\n}\n",
        "void kernel() { run(); }",
        "struct Config {\n  static constexpr bool kHasWindow = " + has_window + ";\n};\n");
  };
  EXPECT_THAT(
      source("f(tile_at<Config>(all, tile + 1), i64{tile_at<Config>(all, 0)} * 8);", "false"),
      HasSubstr("f(tile + 1, i64{0} * 8);"));
  EXPECT_THAT(source("f(tile_at<Config>(all, tile + 1));", "true"),
              HasSubstr("f(tile_at(all, tile + 1));"));
  // Not where the argument would bind otherwise, or calls something.
  EXPECT_THAT(source("f(8 * tile_at<Config>(all, tile + 1));", "false"),
              HasSubstr("f(8 * tile_at(all, tile + 1));"));
  EXPECT_THAT(source("f(tile_at<Config>(all, next()));", "false"),
              HasSubstr("f(tile_at(all, next()));"));
}

TEST(TailoredSource, WritesTheTypesThatConfigChooses) {
  const std::string text =
      "template <class Config>\nusing Tiles = typename Select<Config::kHasWindow, Visited, "
      "int>::Type;\n"
      "struct Visited {\n  int count;\n};\n"
      "template <class Config>\nvoid run(Tiles<Config> all) {\n  f(all);\n}\n";
  const auto source = [&](const std::string& has_window) {
    return tailored(
        text, "void kernel() { run(8); }",
        "struct Config {\n  static constexpr bool kHasWindow = " + has_window + ";\n};\n");
  };
  EXPECT_THAT(source("false"), HasSubstr("void run(int all)"));
  EXPECT_THAT(source("true"), HasSubstr("void run(Visited all)"));
  for (const char* has_window : {"false", "true"})
    EXPECT_THAT(source(has_window), Not(HasSubstr("Tiles")));
  EXPECT_THAT(source("false"), Not(HasSubstr("Visited")));
}

TEST(TailoredSource, BeginsCommentsOfNeighboursInOneColumn) {
  const std::string source = tailored(
      "template <class Config>\nusing Tiles = typename Select<Config::kHasWindow, Visited, "
      "int>::Type;\n"
      "struct Work {\n  i64 row;               // the first\n  Tiles<Config> tiles;  // of keys\n"
      "  i64 none;\n  int x;                 // alone\n};\n",
      "void kernel(Work work) { run(work); }",
      "struct Config {\n  static constexpr bool kHasWindow = false;\n};\n");
  EXPECT_THAT(source, HasSubstr("  i64 row;    // the first\n  int tiles;  // of keys\n"));
  EXPECT_THAT(source, HasSubstr("  int x;  // alone\n"));
}

TEST(TailoredSource, PutsDeclarationsOfOneLineTogether) {
  const std::string source = tailored(
      "int a() { return 1; }\n\nint b() { return 2; }\n\n// About c.\nint c() { return 3; }\n",
      "void kernel() { f(a(), b(), c()); }");
  EXPECT_THAT(source, HasSubstr("int a() { return 1; }\nint b() { return 2; }\n\n// About c.\n"));
}

constexpr const char* kTile =
    "template <class T, int COLS>\nstruct Tile {\n"
    "  static_assert(COLS % 8 == 0, \"whole vectors\");\n"
    "  static constexpr int kBytes = COLS * static_cast<int>(sizeof(T));\n\n  T* data;\n};\n\n";
constexpr const char* kTileConfig =
    "struct Config {\n  using Element = Bf16;\n  static constexpr int kCols = 96;\n};\n";

// Shapes have their values, not how these are computed. Whatever only the computation used goes.
TEST(TailoredSource, WritesTheValuesOfConstants) {
  const std::string source =
      tailored(std::string(kTile) +
                   "template <class Config>\nstruct Shape {\n"
                   "  using Rows = Tile<typename Config::Element, Config::kCols>;\n"
                   "  static constexpr int kTiles = Config::kCols / 48;\n"
                   "  static constexpr int kSize = kTiles * Rows::kBytes;  // in all\n};\n"
                   "template <class Config>\nvoid run() {\n  take(Shape<Config>::kSize);\n}\n",
               "void kernel() { run(); }", kTileConfig);
  EXPECT_THAT(source, HasSubstr("  static constexpr int kSize = 384;  // in all\n"));
  for (const char* gone : {"kTiles", "Tile", "kBytes", "kCols"})
    EXPECT_THAT(source, Not(HasSubstr(gone)));
}

TEST(TailoredSource, LeavesOutAssertsThatHoldForAllArgumentsOfAClass) {
  const auto with_tiles = [](const std::string& cols) {
    return tailored(std::string(kTile) + "void run() {\n  Tile<Bf16, 64> a;\n  Tile<Bf16, " + cols +
                        "> b;\n  use(a.data, b.data);\n}\n",
                    "void kernel() { run(); }", kTileConfig);
  };
  EXPECT_THAT(with_tiles("128"), Not(HasSubstr("static_assert")));
  EXPECT_THAT(with_tiles("12"), HasSubstr("static_assert"));
  EXPECT_THAT(with_tiles("COUNT"), HasSubstr("static_assert"));
}

TEST(TailoredSource, KeepsOverloadsByTheTypesOfVariables) {
  const std::string overloads =
      "void load(float& x, u32 at) {\n}\nvoid load(u32& x, u32 at) {\n}\n"
      "void load(u32 (&x)[4], u32 at) {\n}\n";
  const std::string known =
      tailored(overloads + "void run() {\n  u32 x[4];\n  load(x, f());\n}\n", "run();");
  EXPECT_THAT(known, HasSubstr("load(u32 (&x)[4], u32 at)"));
  EXPECT_THAT(known, Not(HasSubstr("load(u32& x")));
  EXPECT_THAT(known, Not(HasSubstr("float")));
  const std::string unknown =
      tailored(overloads + "void run() {\n  u32 x[4];\n  load(x[0], f());\n}\n", "run();");
  for (const char* kept : {"load(u32 (&x)[4], u32 at)", "load(u32& x", "load(float& x"})
    EXPECT_THAT(unknown, HasSubstr(kept));
}

TEST(TailoredSource, KeepsTheFunctionsThatMacrosDeclare) {
  const std::string source = tailored(
      "#define LSSAR_UNARY(name, op) \\\n  float name(float x) { return op(x); }\n\n"
      "// Used.\nLSSAR_UNARY(used, \"a\")\n// Not used.\nLSSAR_UNARY(unused, \"b\")\n",
      "void kernel() { used(1.0f); }");
  EXPECT_THAT(source, HasSubstr("#define LSSAR_UNARY"));
  EXPECT_THAT(source, HasSubstr("// Used.\nLSSAR_UNARY(used, \"a\")\n"));
  EXPECT_THAT(source, Not(HasSubstr("unused")));
}

// The kernels' argument keeps its layout.
TEST(TailoredSource, HidesWhatNothingReadsOfTheArgument) {
  const std::string source = tailored(
      "struct AttentionParams {\n  TensorRef q;\n\n  // Read.\n  float* sums;\n  void* other;\n"
      "  long long rows;\n  int heads;\n  int spare;\n};\n"
      "void run(AttentionParams params) {\n  use(params.sums, params.heads);\n}\n",
      "run(p);");
  EXPECT_THAT(source, HasSubstr("  unsigned char unread_1[32];\n\n  // Read.\n  float* sums;\n"
                                "  unsigned char unread_2[16];\n  int heads;\n"
                                "  unsigned char unread_3[4];\n};\n"));
}

}  // namespace
}  // namespace lssar
