// The backward whose epsilon is from a pass over the keys instead of X, against the golden cases
// and the float64 reference: Variant::kPortable at sm_80, Variant::kHopper at sm_90a
// (LSSAR_TEST_TARGET). The forward for training, of the same plan, then saves no X.
#include <gtest/gtest.h>

#include <string>

#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

CapiOptions by_pass(const std::string& others = "") {
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  options.alignment = 16;
  options.schedule_json = R"({"epsilon": "pass")" + others + "}";
  return options;
}

Problem make_problem(DType dtype, bool causal, int p = 15) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = 64;
  problem.dtype = dtype;
  problem.causal = causal;
  problem.p = p;
  return problem;
}

bool is_hopper() { return test_target() == "sm_90a"; }

// Those that differ in shapes and data, of few kernels: they take long to compile.
TEST(EpsilonByPass, ReproducesTheGoldenCases) {
  for (const char* name :
       {"cache_7_of_60", "causal_p15_d128", "causal_p15_d128_peaky", "causal_p15_d64",
        "causal_p1_d32", "clustered_p15_d64", "d256", "full_p15_d64", "gqa_4_2", "huge_p15_d64",
        "lq_gt_lk", "one_token", "opposed_p15_d128", "three_tokens", "ties_p15_d64"}) {
    SCOPED_TRACE(name);
    const auto golden = load_golden_case(name);
    ASSERT_TRUE(golden.ok()) << golden.status().to_string();
    check_golden_case(*golden, by_pass(), {});
  }
}

// One key, tiles of the kernels and one less and more, primes; no mask hides the last tile's rest.
TEST(EpsilonByPass, FitsEveryLength) {
  for (bool causal : {true, false}) {
    const DType dtype = causal ? DType::kBf16 : is_hopper() ? DType::kFp16 : DType::kFp32;
    for (int64_t n : {1, 4, 31, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191})
      check_against_reference(make_problem(dtype, causal), make_sizes(1, 1, 1, n, n),
                              InputKind::kGauss, by_pass());
  }
}

TEST(EpsilonByPass, FitsQueriesAndKeysThatDiffer) {
  constexpr int64_t kPairs[][2] = {{7, 60}, {65, 129}, {3, 1},   {20, 7},   {130, 3},
                                   {64, 0}, {0, 64},   {5, 200}, {300, 270}};
  for (bool causal : {true, false}) {
    const DType dtype = causal ? DType::kBf16 : DType::kFp16;
    for (const auto& pair : kPairs)
      check_against_reference(make_problem(dtype, causal), make_sizes(2, 4, 2, pair[0], pair[1]),
                              InputKind::kGauss, by_pass());
  }
}

// With what else a schedule of the backward can have: where the dk/dv kernel sums dq, epsilon alone
// has the tiles of `dq`.
TEST(EpsilonByPass, GoesWithEveryKindOfBackward) {
  bool causal = false;
  for (const char* others :
       {R"(, "dq_mode": "atomic")", R"(, "dq_mode": "ordered")", R"(, "dq": {"block_cols": 16})",
        R"(, "split_dkdv": true, "dq": {"stages": 2})"}) {
    SCOPED_TRACE(others);
    causal = !causal;
    const DType dtype = causal ? DType::kBf16 : DType::kFp16;
    CapiOptions options = by_pass();  // the forward for training of the other tests
    options.backward_schedule_json = by_pass(others).schedule_json;
    check_against_reference(make_problem(dtype, causal), make_sizes(2, 2, 1, 150, 150),
                            InputKind::kGauss, options);
    check_against_reference(make_problem(dtype, causal), make_sizes(1, 2, 1, 70, 133),
                            InputKind::kGauss, options);
  }
}

TEST(EpsilonByPass, FitsHeadDims) {
  constexpr int kDims[][2] = {{24, 40}, {40, 88}};
  for (const auto& dims : kDims) {
    Problem problem = make_problem(DType::kBf16, true);
    problem.head_dim = dims[0];
    problem.head_dim_v = dims[1];
    check_against_reference(problem, make_sizes(1, 2, 1, 83, 83), InputKind::kGauss, by_pass());
  }
}

TEST(EpsilonByPass, FitsEveryKindOfDataAndPower) {
  for (InputKind kind : {InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
                         InputKind::kNearTies, InputKind::kTies, InputKind::kZeros}) {
    for (int p : {1, 15})
      check_against_reference(make_problem(DType::kBf16, true, p), make_sizes(1, 2, 2, 130, 130),
                              kind, by_pass());
  }
}

// Both alignments' kernels of one plan.
TEST(EpsilonByPass, FitsLayoutsThatAreNotAligned) {
  CapiOptions options = by_pass();
  options.alignment = 0;
  for (Layout layout : {Layout::kPadded, Layout::kUnaligned}) {
    options.layout = layout;
    check_against_reference(make_problem(DType::kBf16, true), make_sizes(1, 4, 2, 70, 70),
                            InputKind::kGauss, options);
  }
}

}  // namespace
}  // namespace lssar
