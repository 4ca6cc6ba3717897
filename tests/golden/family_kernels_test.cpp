// Kernels of score functions beside LSSAR's: the golden cases of the family, by both compilers, on
// Hopper and on the CPU, through the C API. family_turns.h says which compiler has which case and
// dtype. LLVM has half of the score functions at d 64: the source is the same for both compilers,
// and with those at d 128 it has every activation. Hopper has them in bf16: in turn the forward, at
// d 128 where there is such a case and with the default tiles, and a training step at d 64 with
// small ones. family_rules_test has every pass of each class there, and fp16.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compiler.h"
#include "tests/cpu/cpu_kernel.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/family_turns.h"

namespace lssar {
namespace {

constexpr uint32_t kTraining = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | kTraining;

void check(const std::string& name, DType dtype, uint32_t passes, const CheckDevice& device,
           const std::string& schedule_json = "") {
  auto golden = load_golden_case(name, golden_family_folder());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  CapiOptions options;
  options.passes = passes;
  options.alignment = 16;
  options.schedule_json = schedule_json;
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

INSTANTIATE_TEST_SUITE_P(All, FamilyByLlvm,
                         testing::ValuesIn(family_cases_in_turn(FamilyCompiler::kLlvm)), case_name);

class FamilyOnHopper : public testing::TestWithParam<std::string> {};

// The passes of a case, in turn from score function to score function; 0: none.
uint32_t hopper_passes(const std::string& name) {
  const std::vector<std::string>& all = all_family_cases();
  const bool is_wide = name.ends_with("_d128");
  if (score_number(all, name) % 2 != 0) return is_wide ? 0 : kTraining;
  const std::string wide = name.substr(0, name.find("__")) + "__full_d128";
  const bool has_wide = std::count(all.begin(), all.end(), wide) > 0;
  return is_wide == has_wide ? uint32_t{LSSAR_PASS_FORWARD} : 0;
}

std::vector<std::string> hopper_cases() {
  std::vector<std::string> cases = all_family_cases();
  std::erase_if(cases, [](const std::string& name) { return hopper_passes(name) == 0; });
  return cases;
}

TEST_P(FamilyOnHopper, GivesTheGoldenResult) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  const bool has_default_tiles = hopper_passes(GetParam()) == LSSAR_PASS_FORWARD;
  check(GetParam(), DType::kBf16, hopper_passes(GetParam()), {LSSAR_COMPILER_NVRTC, "sm_90a"},
        has_default_tiles ? "" : small_tiles("sm_90a"));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyOnHopper, testing::ValuesIn(hopper_cases()), case_name);

class FamilyOnTheCpu : public testing::TestWithParam<std::string> {};

// In fp32; at d 128 in bf16 and without gradients, and half of the score functions, since each is a
// kernel to compile.
TEST_P(FamilyOnTheCpu, GivesTheGoldenResult) {
  if (std::string why; !can_run_cpu_kernels(&why)) GTEST_SKIP() << why;
  const bool is_small = !GetParam().ends_with("_d128");
  CheckDevice device;
  device.is_cpu = true;
  check(GetParam(), is_small ? DType::kFp32 : DType::kBf16,
        is_small ? kTraining : uint32_t{LSSAR_PASS_FORWARD_TRAIN}, device);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyOnTheCpu,
                         testing::ValuesIn(family_cases(FamilyCompiler::kLlvm)), case_name);

}  // namespace
}  // namespace lssar
