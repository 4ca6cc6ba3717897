// Every kind of data that `lssar verify` offers, with several seeds and sizes, on default kernels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

struct Setting {
  DType dtype;
  int p;
};

class DataSeeds : public testing::TestWithParam<Setting> {
 protected:
  void check(InputKind kind, bool causal, int dim, const Sizes& sizes, uint64_t seed) {
    Problem problem;
    problem.head_dim = problem.head_dim_v = dim;
    problem.dtype = GetParam().dtype;
    problem.causal = causal;
    problem.p = GetParam().p;
    CapiOptions options;
    options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
    options.alignment = 16;
    check_against_reference(problem, sizes, kind, options, {}, seed);
  }
};

TEST_P(DataSeeds, EveryKindOfData) {
  for (const InputKind kind :
       {InputKind::kGauss, InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
        InputKind::kTies, InputKind::kNearTies, InputKind::kZeros, InputKind::kHuge,
        InputKind::kLocal, InputKind::kShifted}) {
    // Masks and dims in turn: each kernel takes longer to compile than to run with all this.
    const bool causal = GetParam().dtype != DType::kFp16;
    for (const uint64_t seed : {1, 2, 3})
      check(kind, causal, 64, make_sizes(1, 1, 1, 300, 300), seed);
    check(kind, !causal, 128, make_sizes(2, 2, 1, 90, 200), 1);
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    // In float32 no target has kernels of its own.
    if (dtype == DType::kFp32 && test_target() == "sm_90a") continue;
    // sweep_test has the other powers.
    all.push_back({dtype, dtype == DType::kFp16 ? 0 : 15});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, DataSeeds, testing::ValuesIn(settings()),
                         [](const testing::TestParamInfo<Setting>& param_info) {
                           return std::string(dtype_name(param_info.param.dtype)) + "_p" +
                                  std::to_string(param_info.param.p);
                         });

}  // namespace
}  // namespace lssar
