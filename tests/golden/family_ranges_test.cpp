// The passes over ranges of keys of score functions beside LSSAR's: the golden cases of the family,
// split in uneven ranges and merged as docs/math.md says, each by one compiler. The backwards,
// which are those of family_kernels_test, work with the merged results too.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/pass_needs.h"
#include "compile/compiler.h"
#include "reference/error_rule.h"
#include "score/score_text.h"
#include "tests/capi/split_forward.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/family_turns.h"

namespace lssar {
namespace {

// Whether the merged statistics are all that the backward reads. LSSAR's kernels also read X.
bool has_backward(const Problem& problem) { return is_general(problem); }

Result<Merged> split_and_merge(lssar_context* context, const Problem& problem, const Sizes& sizes,
                               const CapiInputs& inputs, const std::vector<int64_t>& key_cuts,
                               const std::vector<int64_t>& query_cuts = {}) {
  SplitForward split(context, problem, sizes, inputs);
  LSSAR_RETURN_IF_ERROR(split.prepare());
  return split.run(cut(sizes.seq_q, query_cuts), cut(sizes.seq_k, key_cuts));
}

void check_split(lssar_context* context, const Problem& problem, const Sizes& sizes,
                 const CapiInputs& inputs, const ReferenceOutputs& expected,
                 const std::vector<int64_t>& key_cuts, bool wants_backward) {
  const Result<Merged> merged = split_and_merge(context, problem, sizes, inputs, key_cuts);
  ASSERT_TRUE(merged.ok()) << to_string(problem) << ": " << merged.status().to_string();
  expect_close(problem, OutputTensor::kO, expected, merged->o);
  if (!wants_backward || !has_backward(problem)) return;
  const Result<CapiOutputs> gradients = backward_of(context, problem, sizes, inputs, *merged);
  ASSERT_TRUE(gradients.ok()) << to_string(problem) << ": " << gradients.status().to_string();
  expect_close(problem, OutputTensor::kDq, expected, gradients->grad_q);
  expect_close(problem, OutputTensor::kDk, expected, gradients->grad_k);
  expect_close(problem, OutputTensor::kDv, expected, gradients->grad_v);
  expect_close(problem, OutputTensor::kDsink, expected, gradients->grad_sink);
}

void check_golden_ranges(const std::string& name, DType dtype, const CheckDevice& device) {
  auto golden = load_golden_case(name, golden_family_folder());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  lssar_context* context = shared_context(device);
  ASSERT_NE(context, nullptr);
  const CapiInputs inputs{golden->q, golden->k, golden->v, golden->grad_o};
  const int64_t keys = golden->sizes.seq_k;
  golden->problem.dtype = dtype;
  const Result<ReferenceOutputs> expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  // The second of three ranges is empty. In causal cases the last is hidden from most rows.
  check_split(context, golden->problem, golden->sizes, inputs, *expected, {keys / 3}, true);
  check_split(context, golden->problem, golden->sizes, inputs, *expected,
              {keys / 2 + 1, keys / 2 + 1}, false);
  check_split(context, golden->problem, golden->sizes, inputs, *expected, {5, keys - 3}, false);
}

std::string case_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

// At d 64, whose kernels several cases share. FamilyRanges has other head dims.
std::vector<std::string> range_cases(FamilyCompiler compiler) {
  std::vector<std::string> cases = family_cases_in_turn(compiler);
  std::erase_if(cases, [](const std::string& name) { return name.ends_with("_d128"); });
  return cases;
}

class FamilyRangesByNvrtc : public testing::TestWithParam<std::string> {};

TEST_P(FamilyRangesByNvrtc, AddUp) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  check_golden_ranges(GetParam(), family_dtype(FamilyCompiler::kNvrtc, GetParam()),
                      {LSSAR_COMPILER_NVRTC, "sm_80"});
}

INSTANTIATE_TEST_SUITE_P(All, FamilyRangesByNvrtc,
                         testing::ValuesIn(range_cases(FamilyCompiler::kNvrtc)), case_name);

class FamilyRangesByLlvm : public testing::TestWithParam<std::string> {};

TEST_P(FamilyRangesByLlvm, AddUp) {
  check_golden_ranges(GetParam(), family_dtype(FamilyCompiler::kLlvm, GetParam()),
                      {LSSAR_COMPILER_LLVM, "sm_90"});
}

INSTANTIATE_TEST_SUITE_P(All, FamilyRangesByLlvm,
                         testing::ValuesIn(range_cases(FamilyCompiler::kLlvm)), case_name);

// One score function of each class.
class FamilyRanges : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto score = parse_score(GetParam());
    ASSERT_TRUE(score.ok()) << score.status().to_string();
    problem_.score = *score;
    problem_.causal = true;
    problem_.p = 0;
    problem_.heads = 4;
    problem_.kv_heads = 2;
    context_ = shared_context();
    ASSERT_NE(context_, nullptr);
  }

  void check(const Sizes& sizes, const std::vector<int64_t>& key_cuts,
             const std::vector<int64_t>& query_cuts) {
    const RandomInputs random = random_inputs(problem_, sizes, InputKind::kGauss, 17);
    const CapiInputs inputs{random.q,    random.k, random.v, {},
                            random.sink, {},       {},       random.alibi_slopes};
    const auto wide = [](const std::vector<float>& x) {
      return std::vector<double>(x.begin(), x.end());
    };
    const auto expected = reference_attention(problem_, sizes,
                                              {wide(inputs.q),
                                               wide(inputs.k),
                                               wide(inputs.v),
                                               {},
                                               wide(inputs.sink),
                                               {},
                                               {},
                                               wide(inputs.alibi_slopes)});
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto merged = split_and_merge(context_, problem_, sizes, inputs, key_cuts, query_cuts);
    ASSERT_TRUE(merged.ok()) << merged.status().to_string();
    expect_close(problem_, OutputTensor::kO, *expected, merged->o);
  }

  Problem problem_;
  lssar_context* context_ = nullptr;
};

TEST_P(FamilyRanges, WithQueriesSplitTooAddUp) { check({2, 4, 2, 90, 131}, {40, 41}, {37}); }

TEST_P(FamilyRanges, RowsThatSeeNoKeyAreZero) { check({1, 4, 2, 80, 50}, {20}, {45}); }

TEST_P(FamilyRanges, OfElementAlignedTensorsAddUp) {
  problem_.head_dim = problem_.head_dim_v = 40;
  problem_.alignment = 2;
  check({1, 4, 2, 50, 50}, {19}, {});
}

TEST_P(FamilyRanges, WithTheReweightingAddUp) {
  if (problem_.score.psi.expression) GTEST_SKIP() << "has another second stage";
  problem_.p = 3;
  check({1, 4, 2, 50, 70}, {0, 33}, {});
}

// On Hopper portable kernels run the ranges, and Hopper's the backward.
TEST_P(FamilyRanges, GiveWhatTheBackwardNeeds) {
  const Sizes sizes{2, 4, 2, 90, 131};
  const RandomInputs random = random_inputs(problem_, sizes, InputKind::kGauss, 17);
  const auto wide = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  const auto expected = reference_attention(problem_, sizes,
                                            {wide(random.q),
                                             wide(random.k),
                                             wide(random.v),
                                             wide(random.grad_o),
                                             wide(random.sink),
                                             {},
                                             {},
                                             wide(random.alibi_slopes)});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  check_split(
      context_, problem_, sizes,
      {random.q, random.k, random.v, random.grad_o, random.sink, {}, {}, random.alibi_slopes},
      *expected, {40, 41}, true);
}

TEST_P(FamilyRanges, ANanInAKeyReachesTheRowsThatSeeIt) {
  const Sizes sizes{1, 4, 2, 60, 60};
  const RandomInputs random = random_inputs(problem_, sizes, InputKind::kGauss, 3);
  CapiInputs inputs{random.q, random.k, random.v, {}, random.sink, {}, {}, random.alibi_slopes};
  constexpr int64_t kBad = 41, kDim = 64;
  inputs.k[kBad * kDim] = std::numeric_limits<float>::quiet_NaN();
  const auto merged = split_and_merge(context_, problem_, sizes, inputs, {32});
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t i = 0; i < 60; ++i)
      for (int64_t c = 0; c < kDim; ++c)
        ASSERT_EQ(std::isnan(merged->o[(head * 60 + i) * kDim + c]), head < 2 && i >= kBad)
            << "head " << head << " row " << i << " column " << c;
}

INSTANTIATE_TEST_SUITE_P(
    Classes, FamilyRanges,
    testing::Values("softmax", "softmax,sink=per_head", "softmax,sink=per_head,psi=(x-b)/N",
                    "sigmoid", "sigmoid,normalizer=length,bias=none",
                    "phi=sigmoid(x),normalizer=sum", "phi=x,normalizer=sum_abs",
                    "phi=-2*exp(3*x),normalizer=sum_abs,scale=0.05",
                    "softmax,psi=x-b,psi_normalizer=sum_abs", "softmax,psi=(x-b)/N",
                    "phi=softplus(x)+1,normalizer=sqrt_length,psi=x^2",
                    "softmax,soft_cap=2,alibi=per_head,sink=per_head"));

}  // namespace
}  // namespace lssar
