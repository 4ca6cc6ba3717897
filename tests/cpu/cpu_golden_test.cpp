// The golden cases' forward and backward, with the source of every CPU target.
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

struct Setting {
  std::string golden, target;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  const auto names = golden_case_names();
  if (!names.ok()) return settings;  // GoldenCases.AreThere of golden_test says why
  for (const std::string& name : *names)
    for (const std::string& target : cpu_target_names()) settings.push_back({name, target});
  return settings;
}

std::string setting_name(const testing::TestParamInfo<Setting>& info) {
  std::string name = info.param.golden + "_" + info.param.target;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

class CpuGolden : public testing::TestWithParam<Setting> {};

TEST_P(CpuGolden, IsReproduced) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto golden = load_golden_case(GetParam().golden);
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  Problem problem = golden->problem;  // its lengths are fixed
  problem.pass = Pass::kForward;
  const CpuInputs inputs = {golden->q, golden->k, golden->v};
  // For one target; for the other they are given by the call. Each is a kernel to compile.
  if (GetParam().target != cpu_target_names()[0]) problem.seq_q = problem.seq_k = 0;
  expect_o(problem, *expected, run_cpu_kernel(GetParam().target, problem, golden->sizes, inputs));
}

TEST_P(CpuGolden, GradientsAreReproduced) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto golden = load_golden_case(GetParam().golden);
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  Problem problem = golden->problem;
  const CpuInputs inputs = {golden->q, golden->k, golden->v, golden->grad_o};
  problem.seq_q = problem.seq_k = 0;  // given by the call
  expect_gradients(problem, *expected,
                   run_cpu_training(GetParam().target, problem, golden->sizes, inputs));
}

INSTANTIATE_TEST_SUITE_P(All, CpuGolden, testing::ValuesIn(all_settings()), setting_name);

}  // namespace
}  // namespace lssar
