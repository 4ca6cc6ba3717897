// Kernels of score functions with a soft cap and with ALiBi, against the float64 reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "score/score_text.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

CapiOptions with_schedule(const char* json = "") {
  CapiOptions options;
  options.passes = kAllPasses;
  options.alignment = 16;
  options.schedule_json = json;
  return options;
}

CheckDevice with_compiler(lssar_compiler compiler) {
  CheckDevice device;
  device.compiler = compiler;
  return device;
}

Problem scored(const char* score, int p, DType dtype, bool causal) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = 32;
  problem.dtype = dtype;
  problem.causal = causal;
  problem.p = p;
  problem.score = *parse_score(score);
  return problem;
}

// Two heads share keys. Tiles have 64 rows and columns or fewer.
void check_lengths(const Problem& problem, const CapiOptions& options, const CheckDevice& device) {
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{1, 1},
                             {1, 200},
                             {63, 63},
                             {65, 64},
                             {131, 200},
                             {150, 20},
                             {64, 0},
                             {0, 9}})
    check_against_reference(problem, make_sizes(2, 4, 2, q, k), InputKind::kGauss, options, device);
}

// Large scores, many of them at the cap.
TEST(ChangedScores, CappedSoftmax) {
  const Problem problem = scored("softmax,soft_cap=3", 0, DType::kBf16, true);
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
  check_against_reference(problem, make_sizes(1, 2, 1, 131, 131), InputKind::kPeaky,
                          with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
}

TEST(ChangedScores, CappedAndWithSlopesInFp32) {
  const Problem problem = scored("softmax,soft_cap=2,alibi=per_head", 0, DType::kFp32, true);
  check_lengths(problem, with_schedule(R"({"dq_mode": "split"})"),
                with_compiler(LSSAR_COMPILER_LLVM));
  check_against_reference(problem, make_sizes(1, 2, 1, 70, 131), InputKind::kPeaky,
                          with_schedule(R"({"dq_mode": "split"})"),
                          with_compiler(LSSAR_COMPILER_LLVM));
}

// LSSAR's score function has kernels of its own, which have neither cap nor slopes.
TEST(ChangedScores, ReweightedSoftplus) {
  check_lengths(scored("lssar,soft_cap=4,alibi=per_head", 3, DType::kFp16, false), with_schedule(),
                with_compiler(LSSAR_COMPILER_NVRTC));
}

// Rows of one head in two consumers, dq in order, and keys before the first query.
TEST(ChangedScores, SlopedSoftmaxWithDqInOrder) {
  const Problem problem = scored("softmax,alibi=per_head", 0, DType::kBf16, true);
  check_lengths(problem, with_schedule(R"({"dq_mode": "ordered"})"),
                with_compiler(LSSAR_COMPILER_NVRTC));
}

// Epsilon is a sum over the keys that the window leaves.
TEST(ChangedScores, PsiWithinAWindowBesideASink) {
  Problem problem = scored("softmax,soft_cap=2,alibi=per_head,sink=per_head,psi=(x - b) / N", 0,
                           DType::kBf16, false);
  problem.window_left = 40;
  problem.window_right = 9;
  problem.window_sinks = 3;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_LLVM));
}

// A tile has rows of several heads, and each has its slope.
TEST(ChangedScores, PackedHeads) {
  const Problem problem = scored("sigmoid,alibi=per_head", 0, DType::kBf16, true);
  CapiOptions options = with_schedule(R"({"pack_gqa": true})");
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
  for (const auto& [heads, q] : {std::pair<int64_t, int64_t>{6, 40}, {71, 5}, {4, 1}})
    check_against_reference(problem, make_sizes(1, heads, 1, q, 100), InputKind::kGauss, options);
}

// A NaN slope spoils its head. A NaN key spoils the rows that see it, and maybe other gradients of
// its head.
TEST(ChangedScores, NoNumbersBehindACap) {
  constexpr int64_t kDim = 32, kRows = 70, kKey = 50;
  const Problem problem = scored("softmax,soft_cap=3,alibi=per_head", 0, DType::kBf16, true);
  const Sizes sizes = make_sizes(1, 2, 2, kRows, kRows);
  RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 5);
  in.alibi_slopes = {kNan, 0.5f};
  in.k[(kRows + kKey) * kDim] = kNan;
  const auto out =
      run_capi(shared_context(), problem, sizes,
               {in.q, in.k, in.v, in.grad_o, {}, {}, {}, in.alibi_slopes}, with_schedule());
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (int64_t at = 0; at < 2 * kRows * kDim; ++at) {
    const int64_t row = at / kDim;
    const bool is_bad = row < kRows || row >= kRows + kKey;
    ASSERT_EQ(std::isnan(out->o[at]), is_bad) << "row " << row;
    ASSERT_EQ(std::isnan(out->o_train[at]), is_bad) << "row " << row;
    ASSERT_TRUE(std::isnan(out->grad_q[at]) || !is_bad) << "row " << row;
  }
}

}  // namespace
}  // namespace lssar
