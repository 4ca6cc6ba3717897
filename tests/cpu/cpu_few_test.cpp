// A few golden cases, with the source of the lowest CPU target, for the short set; cpu_sweep_test
// has all of them, and every target.
#include <utility>

#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

class CpuFew : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    LSSAR_NEEDS_CPU_KERNELS();
    auto golden = load_golden_case(GetParam());
    ASSERT_TRUE(golden.ok()) << golden.status().to_string();
    golden_ = std::move(*golden);
    auto expected = golden_reference(golden_);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    expected_ = std::move(*expected);
    golden_.problem.seq_q = golden_.problem.seq_k = 0;  // given by the call
  }

  GoldenCase golden_;
  ReferenceOutputs expected_;
};

TEST_P(CpuFew, GoldenCases) {
  golden_.problem.pass = Pass::kForward;
  expect_o(golden_.problem, expected_,
           run_cpu_kernel(cpu_target_names()[0], golden_.problem, golden_.sizes,
                          {golden_.q, golden_.k, golden_.v}));
}

class CpuFewGradients : public CpuFew {};

TEST_P(CpuFewGradients, GoldenCases) {
  expect_gradients(golden_.problem, expected_,
                   run_cpu_training(cpu_target_names()[0], golden_.problem, golden_.sizes,
                                    {golden_.q, golden_.k, golden_.v, golden_.grad_o}));
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
