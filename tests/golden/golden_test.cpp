// The golden cases, forward and backward, through the C API: both compilers; targets with and
// without the kernels of Variant::kHopper.
#include <gtest/gtest.h>

#include "compile/compiler.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

struct Setting {
  std::string golden;
  lssar_compiler compiler;
  std::string target;
};

std::string setting_name(const Setting& s) {
  return s.golden + (s.compiler == LSSAR_COMPILER_NVRTC ? "_nvrtc_" : "_llvm_") + s.target;
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting_name(setting); }

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  const auto names = golden_case_names();
  if (!names.ok()) return settings;  // GoldenCases.AreThere says why
  for (const std::string& name : *names) {
    settings.push_back({name, LSSAR_COMPILER_NVRTC, "sm_80"});
    settings.push_back({name, LSSAR_COMPILER_LLVM, "sm_90"});
    settings.push_back({name, LSSAR_COMPILER_NVRTC, "sm_90a"});
  }
  // The same source by the other compiler: one case of each dtype.
  for (const char* name : {"causal_p15_d64", "fp16_p15_d64", "fp32_p15_d64"}) {
    settings.push_back({name, LSSAR_COMPILER_NVRTC, "sm_90"});
    settings.push_back({name, LSSAR_COMPILER_LLVM, "sm_80"});
  }
  return settings;
}

class Golden : public testing::TestWithParam<Setting> {};

TEST_P(Golden, IsReproduced) {
  const Setting& setting = GetParam();
  const bool is_nvrtc = setting.compiler == LSSAR_COMPILER_NVRTC;
  if (is_nvrtc && !open_compiler(CompilerChoice::kNvrtc).ok())
    GTEST_SKIP() << "NVRTC is not installed";
  const auto golden = load_golden_case(setting.golden);
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  options.alignment = 16;
  check_golden_case(*golden, options, {setting.compiler, setting.target});
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(all_settings()),
                         [](const testing::TestParamInfo<Setting>& param_info) {
                           return setting_name(param_info.param);
                         });

TEST(GoldenCases, AreThere) {
  const auto names = golden_case_names();
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  EXPECT_GE(names->size(), 20u);
}

// The same numbers with the lengths baked in.
TEST(GoldenCases, AreReproducedWithFixedLengths) {
  for (const char* name : {"causal_p15_d64", "cache_7_of_60", "lq_gt_lk", "lssa_full_d128"}) {
    const auto golden = load_golden_case(name);
    ASSERT_TRUE(golden.ok()) << golden.status().to_string();
    CapiOptions options;
    options.fixes_lengths = true;
    options.alignment = 16;
    check_golden_case(*golden, options, {});
  }
}

}  // namespace
}  // namespace lssar
