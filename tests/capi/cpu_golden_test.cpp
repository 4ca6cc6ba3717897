// Every other golden case's forward and backward through the C API, on the cpu device. CpuGolden
// has all, without the API.
#include "tests/capi/run_capi.h"
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

std::vector<std::string> cases() {
  const auto names = golden_case_names();
  std::vector<std::string> cases;
  if (!names.ok()) return cases;  // GoldenCases.AreThere says why
  for (size_t i = 0; i < names->size(); i += 2) cases.push_back((*names)[i]);
  return cases;
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
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  options.layout = Layout::kLengthMajor;
  const auto outputs = run_capi(context->get(), golden->problem, golden->sizes,
                                {golden->q, golden->k, golden->v, golden->grad_o}, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const auto expect = [&](OutputTensor tensor, const std::vector<float>& actual) {
    const TensorError error = compare(reference_values(*expected, tensor), actual,
                                      allowed_error(golden->problem, tensor, *expected));
    EXPECT_TRUE(error.is_right()) << tensor_name(tensor) << ": " << error.to_string();
  };
  expect(OutputTensor::kO, outputs->o);
  expect(OutputTensor::kO, outputs->o_train);
  expect(OutputTensor::kDq, outputs->grad_q);
  expect(OutputTensor::kDk, outputs->grad_k);
  expect(OutputTensor::kDv, outputs->grad_v);
}

INSTANTIATE_TEST_SUITE_P(All, CapiCpuGolden, testing::ValuesIn(cases()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace lssar
