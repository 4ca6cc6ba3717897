// The golden cases' forward and backward, with the source of each CPU target in turn: a case has
// the forward of one and the gradients of the other. CapiCpuGolden has half of the cases on this
// machine's own target.
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

struct Setting {
  std::string golden;
  size_t turn;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  const auto names = golden_case_names();
  if (!names.ok()) return settings;  // GoldenCases.AreThere of golden_test says why
  for (const std::string& name : *names) settings.push_back({name, settings.size()});
  return settings;
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
  // For every fourth case of a target; for the rest they are given by the call, and the cases of a
  // problem share its kernel.
  if (GetParam().turn / 2 % 4 != 0) problem.seq_q = problem.seq_k = 0;
  const std::string target = target_in_turn(GetParam().turn)[0];
  expect_o(problem, *expected, run_cpu_kernel(target, problem, golden->sizes, inputs));
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
  const std::string target = target_in_turn(GetParam().turn + 1)[0];
  expect_gradients(problem, *expected, run_cpu_training(target, problem, golden->sizes, inputs));
}

INSTANTIATE_TEST_SUITE_P(All, CpuGolden, testing::ValuesIn(all_settings()),
                         [](const auto& param_info) { return param_info.param.golden; });

}  // namespace
}  // namespace lssar
