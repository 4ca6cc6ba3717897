// Kernels of score functions beside LSSAR's: the golden cases of the family, by both compilers and
// on Hopper, through the C API. family_turns.h says which compiler has which case and dtype. Hopper
// has all in bf16; at d 128 the score functions have in turn the forward and a training step.
// family_rules_test has fp16 on Hopper.
#include <gtest/gtest.h>

#include "compile/compiler.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/family_turns.h"

namespace lssar {
namespace {

constexpr uint32_t kTraining = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | kTraining;

void check(const std::string& name, DType dtype, uint32_t passes, const CheckDevice& device) {
  auto golden = load_golden_case(name, golden_family_folder());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  CapiOptions options;
  options.passes = passes;
  options.alignment = 16;
  golden->problem.dtype = dtype;
  check_golden_case(*golden, options, device);
}

std::string case_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

class FamilyByNvrtc : public testing::TestWithParam<std::string> {};

TEST_P(FamilyByNvrtc, GivesTheGoldenResult) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  check(GetParam(), family_dtype(FamilyCompiler::kNvrtc, GetParam()), kAllPasses,
        {LSSAR_COMPILER_NVRTC, "sm_80"});
}

INSTANTIATE_TEST_SUITE_P(All, FamilyByNvrtc,
                         testing::ValuesIn(family_cases(FamilyCompiler::kNvrtc)), case_name);

class FamilyByLlvm : public testing::TestWithParam<std::string> {};

TEST_P(FamilyByLlvm, GivesTheGoldenResult) {
  check(GetParam(), family_dtype(FamilyCompiler::kLlvm, GetParam()), kAllPasses,
        {LSSAR_COMPILER_LLVM, "sm_90"});
}

INSTANTIATE_TEST_SUITE_P(All, FamilyByLlvm, testing::ValuesIn(family_cases(FamilyCompiler::kLlvm)),
                         case_name);

class FamilyOnHopper : public testing::TestWithParam<std::string> {};

TEST_P(FamilyOnHopper, GivesTheGoldenResult) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  const bool is_first =
      score_number(golden_case_names(golden_family_folder()).value(), GetParam()) % 2 == 0;
  const uint32_t passes = !GetParam().ends_with("_d128") ? kAllPasses
                          : is_first                     ? LSSAR_PASS_FORWARD
                                                         : kTraining;
  check(GetParam(), DType::kBf16, passes, {LSSAR_COMPILER_NVRTC, "sm_90a"});
}

INSTANTIATE_TEST_SUITE_P(All, FamilyOnHopper,
                         testing::ValuesIn(golden_case_names(golden_family_folder()).value()),
                         case_name);

}  // namespace
}  // namespace lssar
