// Attention on a GPU through the C API: golden cases, a sweep of lengths, repeatability, and the
// backward that sums dq with atomics.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

CapiOptions all_passes(const std::string& schedule_json = "") {
  CapiOptions options;
  options.passes = kAllPasses;
  options.alignment = 16;
  options.schedule_json = schedule_json;
  return options;
}

Problem make_problem(int dim, DType dtype, bool causal) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = dim;
  problem.dtype = dtype;
  problem.causal = causal;
  return problem;
}

class GpuAttention : public testing::Test {
 protected:
  void SetUp() override {
    const Result<ContextPtr> context = open_context(LSSAR_DEVICE_CUDA);
    const StatusCode code = context.status().code();
    if (code == StatusCode::kMissing || code == StatusCode::kUnsupported)
      GTEST_SKIP() << context.status().message();
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    // For shared_context.
    ASSERT_EQ(setenv("LSSAR_TEST_DEVICE", "cuda", 1), 0);
  }
};

// A few; every case: gpu_golden.
class GpuGolden : public GpuAttention, public testing::WithParamInterface<const char*> {};

TEST_P(GpuGolden, IsReproduced) {
  const auto golden = load_golden_case(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  check_golden_case(*golden, all_passes(), {});
}

INSTANTIATE_TEST_SUITE_P(All, GpuGolden,
                         testing::Values("causal_p15_d64", "causal_p15_d128", "fp16_p15_d64",
                                         "fp32_p15_d64", "gqa_4_2", "lssa_d64"),
                         [](const auto& param_info) { return std::string(param_info.param); });

class GpuSweep : public GpuAttention, public testing::WithParamInterface<bool> {};

// Lengths around tiles, and lengths for which no tile of queries and keys is alike.
TEST_P(GpuSweep, Lengths) {
  const Problem problem = make_problem(64, DType::kBf16, GetParam());
  const int64_t pairs[][2] = {{1, 1},     {15, 15}, {17, 17},   {63, 63},  {64, 64},  {65, 65},
                              {129, 129}, {0, 64},  {1, 300},   {300, 1},  {65, 129}, {130, 3},
                              {67, 131},  {5, 200}, {257, 257}, {513, 511}};
  for (const auto& [seq_q, seq_k] : pairs)
    check_against_reference(problem, make_sizes(2, 2, 1, seq_q, seq_k), InputKind::kGauss,
                            all_passes());
}

INSTANTIATE_TEST_SUITE_P(All, GpuSweep, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "causal" : "full");
});

TEST_F(GpuAttention, DqSummedWithAtomicsIsWithinTolerance) {
  for (const DType dtype : {DType::kBf16, DType::kFp16})
    check_against_reference(make_problem(64, dtype, true), make_sizes(1, 4, 2, 300, 300),
                            InputKind::kGauss, all_passes(R"({"dq_mode": "atomic"})"));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Repeated {
  const char* name;
  int dim;
  const char* schedule;
};

void PrintTo(const Repeated& repeated, std::ostream* out) { *out << repeated.name; }

class GpuRepeatability : public GpuAttention, public testing::WithParamInterface<Repeated> {};

// Enough blocks to fill a GPU, so that their order differs from run to run.
TEST_P(GpuRepeatability, EveryRunHasTheSameBits) {
  const CapiOptions options = all_passes(GetParam().schedule);
  const Problem problem = make_problem(GetParam().dim, DType::kBf16, true);
  const Sizes sizes = make_sizes(4, 16, 4, 700, 700);
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 20260801);
  const CapiInputs inputs = {random.q, random.k, random.v, random.grad_o};
  lssar_context* context = shared_context();
  ASSERT_NE(context, nullptr);
  const auto first = run_capi(context, problem, sizes, inputs, options);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  for (int i = 0; i < 4; ++i) {
    const auto again = run_capi(context, problem, sizes, inputs, options);
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    EXPECT_TRUE(same_bits(first->o, again->o)) << "o, run " << i;
    EXPECT_TRUE(same_bits(first->o_train, again->o_train)) << "o of forward-train, run " << i;
    EXPECT_TRUE(same_bits(first->grad_q, again->grad_q)) << "dq, run " << i;
    EXPECT_TRUE(same_bits(first->grad_k, again->grad_k)) << "dk, run " << i;
    EXPECT_TRUE(same_bits(first->grad_v, again->grad_v)) << "dv, run " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuRepeatability,
    testing::Values(Repeated{"default_d64", 64, ""}, Repeated{"default_d128", 128, ""},
                    Repeated{"split_d64", 64, R"({"dq_mode": "split"})"},
                    Repeated{"split_d128", 128, R"({"dq_mode": "split"})"},
                    Repeated{"ordered_d64", 64, R"({"dq_mode": "ordered"})"},
                    Repeated{"ordered_d128", 128, R"({"dq_mode": "ordered"})"}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace lssar
