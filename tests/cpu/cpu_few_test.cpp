// A few golden cases, with the source of the lowest CPU target, for the short set; cpu_sweep_test
// has all of them, and every target.
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

class CpuFew : public testing::TestWithParam<const char*> {};

TEST_P(CpuFew, GoldenCases) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto golden = load_golden_case(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  Problem problem = golden->problem;
  problem.pass = Pass::kForward;
  problem.seq_q = problem.seq_k = 0;
  expect_o(problem, *expected,
           run_cpu_kernel(cpu_target_names()[0], problem, golden->sizes,
                          {golden->q, golden->k, golden->v}));
}

class CpuFewGradients : public testing::TestWithParam<const char*> {};

TEST_P(CpuFewGradients, GoldenCases) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto golden = load_golden_case(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  Problem problem = golden->problem;
  problem.seq_q = problem.seq_k = 0;
  expect_gradients(problem, *expected,
                   run_cpu_training(cpu_target_names()[0], problem, golden->sizes,
                                    {golden->q, golden->k, golden->v, golden->grad_o}));
}

INSTANTIATE_TEST_SUITE_P(All, CpuFewGradients,
                         testing::Values("fp32_p15_d64", "gqa_4_2", "lq_gt_lk", "lssa_full_d128"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param);
                         });

INSTANTIATE_TEST_SUITE_P(All, CpuFew,
                         testing::Values("causal_p15_d64", "cache_7_of_60", "lq_gt_lk",
                                         "lssa_full_d128", "fp16_p15_d64"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace lssar
