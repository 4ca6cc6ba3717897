// The target whose products multiply pairs of bf16 numbers. Its source runs here at the machine's
// level, where the operations of templates/cpu/pairs.h are computed in software.
#include <limits>

#include "device/cpu/cpu_features.h"
#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

const std::vector<std::string> kPairsOnly = {kPairsTarget};

CpuRun with_gap(int gap) {
  CpuRun run;
  run.gap = gap;
  return run;
}

void check_pairs(const Problem& problem, const Sizes& sizes, InputKind kind, int gap = 0) {
  check_forward(problem, sizes, kind, with_gap(gap), 20261124, kPairsOnly);
}
void check_pairs_training(const Problem& problem, const Sizes& sizes, InputKind kind, int gap = 0) {
  check_training(problem, sizes, kind, with_gap(gap), 20261125, kPairsOnly);
}

// ---- which kernels there are

std::string source_for(const char* target, const Problem& problem) {
  const Target made_for = *target_from_name(target);
  return emit_kernel(problem, default_schedule(problem, made_for), made_for)->source;
}

TEST(CpuPairs, OtherTypesHaveTheKernelsOfTheLevelBelow) {
  const auto code = [](const std::string& source) {
    return source.substr(source.find("// ---- end of header"));
  };
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
      Problem problem = forward_problem(dtype, 64, 64, 15, true);
      problem.pass = pass;
      const std::string pairs = source_for(kPairsTarget, problem);
      EXPECT_EQ(code(pairs) == code(source_for("x86-64-v4", problem)), dtype != DType::kBf16);
      EXPECT_EQ(pairs.find("dpbf16ps") != pairs.npos, dtype == DType::kBf16);
      EXPECT_NE(pairs.find("clang++ -std=c++17 -O3 -march=x86-64-v4 -mavx512bf16 -c"), pairs.npos);
    }
}

// ---- results

// One kernel for each pass, for all lengths: around rows, panels and blocks; an odd key is left
// over; few queries; more queries than keys; heads share keys.
TEST(CpuPairs, Lengths) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  for (const auto& [q, k] : std::vector<std::pair<int, int>>{{0, 5},
                                                             {5, 0},
                                                             {1, 1},
                                                             {3, 2},
                                                             {1, 1201},
                                                             {8, 517},
                                                             {13, 65},
                                                             {64, 31},
                                                             {97, 97},
                                                             {257, 257},
                                                             {101, 331}})
    check_pairs(problem, sizes_with(1, 4, 2, q, k), InputKind::kGauss);
  for (const auto& [q, k] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 3}, {13, 65}, {64, 31}, {131, 203}})
    check_pairs_training(problem, sizes_with(1, 4, 2, q, k), InputKind::kGauss);
  for (const InputKind kind : kSpecialKinds)
    check_pairs_training(problem, sizes_with(1, 1, 1, 100, 300), kind);
}

// The golden cases of the same kernels.
TEST(CpuPairs, GoldenCasesAreReproduced) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  const auto names = golden_case_names();
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  int cases = 0;
  for (const std::string& name : *names) {
    const auto golden = load_golden_case(name);
    ASSERT_TRUE(golden.ok()) << golden.status().to_string();
    const Problem& its = golden->problem;
    if (its.dtype != problem.dtype || its.head_dim != 64 || its.head_dim_v != 64 || its.p != 15 ||
        !its.causal || its.offset != problem.offset)
      continue;
    SCOPED_TRACE(name);
    const auto expected = golden_reference(*golden);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    expect_gradients(problem, *expected,
                     run_cpu_training(kPairsTarget, problem, golden->sizes,
                                      {golden->q, golden->k, golden->v, golden->grad_o}));
    ++cases;
  }
  EXPECT_GE(cases, 5);
}

// The last vectors of pairs, of numbers and of columns are parts of vectors. Rows are apart.
TEST(CpuPairs, HeadDims) {
  LSSAR_NEEDS_CPU_KERNELS();
  check_pairs_training(forward_problem(DType::kBf16, 24, 40, 3, false), sizes_with(2, 4, 2, 37, 53),
                       InputKind::kGauss, 13);
  check_pairs(forward_problem(DType::kBf16, 8, 8, 0, true), sizes_with(2, 3, 3, 70, 131),
              InputKind::kGauss, 1);
  // Few queries.
  check_pairs(forward_problem(DType::kBf16, 8, 8, 0, true), sizes_with(2, 3, 3, 3, 131),
              InputKind::kGauss, 1);
  for (const auto& [dim, dim_v] : std::vector<std::pair<int, int>>{{24, 40}, {104, 8}, {248, 136}})
    check_pairs(forward_problem(DType::kBf16, dim, dim_v, 7, true), sizes_with(2, 6, 2, 2, 307),
                InputKind::kGauss, 3);
  check_pairs_training(forward_problem(DType::kBf16, 248, 136, 7, true),
                       sizes_with(1, 1, 1, 29, 67), InputKind::kGauss);
  check_pairs_training(forward_problem(DType::kBf16, 8, 56, 2, true), sizes_with(1, 2, 1, 61, 211),
                       InputKind::kGauss, 3);
}

// The gradients of rows of at most 3 keys are not rounded for dq: where keys are equal, they sum to
// zero. Such rows are the first ones, or all, or any within a window.
TEST(CpuPairs, RowsOfFewKeys) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem causal = forward_problem(DType::kBf16, 40, 24, 15, true);
  const Problem dense = forward_problem(DType::kBf16, 40, 24, 15, false);
  for (const InputKind kind : {InputKind::kTies, InputKind::kNearTies, InputKind::kGauss}) {
    check_pairs_training(causal, sizes_with(1, 2, 1, 31, 31), kind);
    check_pairs_training(causal, sizes_with(1, 2, 1, 23, 13), kind);
    check_pairs_training(dense, sizes_with(1, 2, 1, 23, 3), kind);
  }
  Problem window = causal;
  window.window_left = 2;
  check_pairs_training(window, sizes_with(1, 2, 1, 211, 211), InputKind::kTies);
  check_pairs_training(window, sizes_with(1, 2, 1, 53, 407), InputKind::kGauss);
}

// dq has a kernel of its own. An odd number of rows are multiplied together.
TEST(CpuPairs, SplitGradients) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kBf16, 24, 40, 15, true);
  CpuRun run;
  run.schedule = default_schedule(problem, *target_from_name(kPairsTarget));
  run.schedule->cpu = CpuOptions{5, 48, 96, 192};
  run.schedule->dq_mode = DqMode::kSplit;
  for (const auto& [q, k] : std::vector<std::pair<int, int>>{{1, 1}, {41, 37}, {103, 509}})
    check_training(problem, sizes_with(1, 2, 1, q, k), InputKind::kGauss, run, 20261128,
                   kPairsOnly);
}

TEST(CpuPairs, ScoreFunctions) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const auto& [score, p] : std::vector<std::pair<const char*, int>>{
           {"softmax", 0}, {"phi=relu(x)^2 + 0.01*x,normalizer=sum_abs", 3}}) {
    Problem problem = forward_problem(DType::kBf16, 40, 24, p, true);
    problem.score = parse_score(score).value();
    for (const auto& [q, k] : std::vector<std::pair<int, int>>{{1, 1}, {13, 65}, {53, 291}})
      check_pairs_training(problem, sizes_with(1, 2, 1, q, k), InputKind::kGauss);
  }
}

// A NaN, or infinity, in a key is in the rows that see it, and in no other.
TEST(CpuPairs, NanInAKeyIsInTheRowsThatSeeIt) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 90, 90);
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 8);
    in.k[50 * 64 + 3] = bad;
    const auto out = run_cpu_kernel(kPairsTarget, problem, sizes, {in.q, in.k, in.v});
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    for (int64_t row = 0; row < 90; ++row) {
      EXPECT_EQ(all_nan(out->o, row * 64, 64), row >= 50) << "row " << row;
      EXPECT_EQ(has_nan(out->o, row * 64, 64), row >= 50) << "row " << row;
    }
  }
}

// Where the machine has the instructions: they give the bits that the software gives.
TEST(CpuPairs, InstructionsGiveTheSoftwaresBits) {
  LSSAR_NEEDS_CPU_KERNELS();
  if (cpu_features().level != kPairsTarget)
    GTEST_SKIP() << cpu_features().name << " has no AVX512_BF16";
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  const Sizes sizes = sizes_with(1, 4, 2, 131, 203);
  for (const InputKind kind : {InputKind::kGauss, InputKind::kNearTies}) {
    const RandomInputs in = random_inputs(problem, sizes, kind, 12);
    const CpuInputs inputs = {in.q, in.k, in.v, in.grad_o};
    CpuRun in_software;
    in_software.compile_for = "x86-64-v4";
    const auto a = run_cpu_training(kPairsTarget, problem, sizes, inputs);
    const auto b = run_cpu_training(kPairsTarget, problem, sizes, inputs, in_software);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status().to_string() << b.status().to_string();
    EXPECT_EQ(a->o, b->o);
    EXPECT_EQ(a->stats, b->stats);
    EXPECT_EQ(a->dq, b->dq);
    EXPECT_EQ(a->dk, b->dk);
    EXPECT_EQ(a->dv, b->dv);
  }
}

}  // namespace
}  // namespace lssar
