// The golden cases' forward through the C API, on the cpu device.
#include "tests/capi/run_capi.h"
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

std::vector<std::string> cases() {
  const auto names = golden_case_names();
  return names.ok() ? *names : std::vector<std::string>();  // GoldenCases.AreThere says why
}

class CapiCpuGolden : public testing::TestWithParam<std::string> {};

TEST_P(CapiCpuGolden, IsReproduced) {
  LSSAR_NEEDS_CPU_KERNELS();
  static const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const auto golden = load_golden_case(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expected = golden_reference(*golden);
  ASSERT_TRUE(expected.ok());
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  options.layout = Layout::kLengthMajor;
  const auto outputs = run_capi(context->get(), golden->problem, golden->sizes,
                                {golden->q, golden->k, golden->v, {}}, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const TensorError error =
      compare(expected->o, outputs->o, allowed_error(golden->problem, OutputTensor::kO, *expected));
  EXPECT_TRUE(error.is_right()) << error.to_string();
}

INSTANTIATE_TEST_SUITE_P(All, CapiCpuGolden, testing::ValuesIn(cases()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace lssar
