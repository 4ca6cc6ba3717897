// Kernels of score functions beside LSSAR's: the golden cases of the family, by both compilers, on
// Hopper and on the CPU, through the C API. For GPUs every case is in bf16, and at d 64 each
// compiler has one more dtype: fp16 and fp32 have the cases' numbers too. family_rules_test has
// fp16 on Hopper.
#include <gtest/gtest.h>

#include "compile/compiler.h"
#include "tests/cpu/cpu_kernel.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

class FamilyKernels : public testing::TestWithParam<std::string> {
 protected:
  void check(lssar_compiler compiler, const char* target, const std::vector<DType>& dtypes) {
    auto golden = load_golden_case(GetParam(), golden_family_folder());
    ASSERT_TRUE(golden.ok()) << golden.status().to_string();
    CapiOptions options;
    options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
    options.alignment = 16;
    for (const DType dtype : dtypes) {
      if (dtype != DType::kBf16 && golden->problem.head_dim != 64) continue;
      golden->problem.dtype = dtype;
      check_golden_case(*golden, options, {compiler, target});
    }
  }
};

TEST_P(FamilyKernels, GiveTheGoldenResultByNvrtc) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  check(LSSAR_COMPILER_NVRTC, "sm_80", {DType::kBf16, DType::kFp32});
}

TEST_P(FamilyKernels, GiveTheGoldenResultByLlvm) {
  check(LSSAR_COMPILER_LLVM, "sm_90", {DType::kBf16, DType::kFp16});
}

TEST_P(FamilyKernels, GiveTheGoldenResultOnHopper) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  check(LSSAR_COMPILER_NVRTC, "sm_90a", {DType::kBf16});
}

// In fp32; at d 128 in bf16 and without gradients, so that there are fewer kernels.
TEST_P(FamilyKernels, GiveTheGoldenResultOnTheCpu) {
  if (std::string why; !can_run_cpu_kernels(&why)) GTEST_SKIP() << why;
  auto golden = load_golden_case(GetParam(), golden_family_folder());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD_TRAIN;
  if (golden->problem.head_dim == 64) {
    golden->problem.dtype = DType::kFp32;
    options.passes |= LSSAR_PASS_BACKWARD;
  }
  CheckDevice device;
  device.is_cpu = true;
  check_golden_case(*golden, options, device);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyKernels,
                         testing::ValuesIn(golden_case_names(golden_family_folder()).value()),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace lssar
