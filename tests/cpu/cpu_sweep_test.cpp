// Sizes, head dims, powers, data and layouts of the CPU forward.
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

TEST(CpuSweep, EveryLength) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const bool causal : {false, true}) {
    const Problem problem = forward_problem(DType::kFp32, 16, 16, 15, causal);
    // Around rows (6), panels (16, 64), blocks (256); decoding; more queries than keys.
    for (const auto& [q, k] : std::vector<std::pair<int, int>>{
             {0, 0},   {0, 5},   {5, 0},   {1, 1},   {2, 3},     {3, 2},    {5, 15},  {6, 16},
             {7, 17},  {11, 63}, {12, 64}, {13, 65}, {1, 255},   {2, 256},  {4, 257}, {97, 97},
             {64, 31}, {1, 700}, {3, 1},   {6, 600}, {257, 257}, {101, 331}})
      check_forward(problem, sizes_with(1, 2, 2, q, k), InputKind::kGauss);
  }
}

// Each with one target in turn: both have multiples of 16 and odd multiples of 8.
TEST(CpuSweep, EveryHeadDim) {
  LSSAR_NEEDS_CPU_KERNELS();
  size_t turn = 0;
  for (const auto& [d, dv] : std::vector<std::pair<int, int>>{{8, 8},
                                                              {8, 64},
                                                              {24, 40},
                                                              {32, 16},
                                                              {64, 64},
                                                              {72, 72},
                                                              {80, 88},
                                                              {96, 104},
                                                              {128, 128},
                                                              {136, 120},
                                                              {192, 128},
                                                              {248, 56},
                                                              {256, 256}})
    check_forward(forward_problem(DType::kFp32, d, dv, 15, true), sizes_with(1, 1, 1, 70, 70),
                  InputKind::kGauss, {}, 20261124, target_in_turn(turn++));
}

class CpuTypes : public testing::TestWithParam<DType> {
 protected:
  static void check(const Problem& problem, const Sizes& sizes, size_t turn) {
    check_forward(problem, sizes, InputKind::kGauss, {}, 20261124, target_in_turn(turn));
  }
};

// A dim has one target in bf16 and the other in fp16.
TEST_P(CpuTypes, HeadDims) {
  LSSAR_NEEDS_CPU_KERNELS();
  size_t turn = GetParam() == DType::kFp16 ? 1 : 0;
  for (const auto& [d, dv] :
       std::vector<std::pair<int, int>>{{8, 8}, {24, 40}, {64, 64}, {128, 72}, {256, 256}})
    check(forward_problem(GetParam(), d, dv, 15, true), sizes_with(1, 2, 1, 50, 90), turn++);
}

TEST_P(CpuTypes, Data) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 64, 64, 15, false);
  for (const InputKind kind : kSpecialKinds)
    check_forward(problem, sizes_with(1, 1, 1, 100, 300), kind);
}

// The power is computed in float32 whatever the type, but 16-bit forwards with a power above 7
// leave out small weights: bf16 has powers on both sides, fp16 the offsets too. A power has one
// target in fp32 and the other in 16 bits.
TEST_P(CpuTypes, Powers) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto check_power = [&](int p, double offset) {
    Problem problem = forward_problem(GetParam(), 32, 32, p, true);
    problem.offset = offset;
    check(problem, sizes_with(1, 1, 1, 90, 90), turn_of_power(GetParam(), p, offset));
  };
  const bool is_fp32 = GetParam() == DType::kFp32, is_bf16 = GetParam() == DType::kBf16;
  const std::vector<int> powers = is_fp32   ? std::vector{0, 1, 2, 7, 15, 64}
                                  : is_bf16 ? std::vector{0, 2, 7, 64}
                                            : std::vector{1, 15};
  for (const int p : powers) check_power(p, 1.0);
  if (is_bf16) return;
  for (const double offset : {0.0, 0.75}) check_power(15, offset);
}

TEST_P(CpuTypes, Layouts) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const int gap : {0, 1, 8, 13}) {
    CpuRun run;
    run.gap = gap;
    check_forward(forward_problem(GetParam(), 40, 24, 3, true), sizes_with(2, 6, 2, 37, 53),
                  InputKind::kGauss, run);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuTypes, testing::Values(DType::kFp32, DType::kBf16, DType::kFp16),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(dtype_name(info.param));
                         });

// Some activations are kept and some computed again, with other blocks and panels.
TEST(CpuSweep, EverySchedule) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 64, 64, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 200, 700);
  for (const std::string& target : cpu_target_names())
    for (const CpuOptions& cpu :
         {CpuOptions{6, 16, 256, 0}, CpuOptions{6, 16, 256, 512}, CpuOptions{1, 16, 16, 8192},
          CpuOptions{4, 32, 64, 64}, CpuOptions{3, 48, 96, 192}}) {
      const Target made_for = *target_from_name(target);
      CpuRun run;
      run.schedule = default_schedule(problem, made_for);
      run.schedule->cpu = cpu;
      if (!validate(*run.schedule, problem, made_for).ok()) continue;
      const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 5);
      const auto expected =
          reference_attention(problem, sizes, {widened(in.q), widened(in.k), widened(in.v), {}});
      ASSERT_TRUE(expected.ok());
      SCOPED_TRACE(target + ": " + to_string(*run.schedule));
      expect_o(problem, *expected, run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v}, run));
    }
}

// Activations have the same bits whether they are kept or computed again.
TEST(CpuSweep, KeptOrComputedAgainIsTheSame) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 32, 32, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 600, 600);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 6);
  for (const std::string& target : cpu_target_names()) {
    CpuRun kept;
    kept.schedule = default_schedule(problem, *target_from_name(target));
    CpuRun again = kept;
    again.schedule->cpu.kept_keys = 0;
    const auto a = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v}, kept);
    const auto b = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v}, again);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->o, b->o);
    EXPECT_EQ(a->stats, b->stats);
  }
}

}  // namespace
}  // namespace lssar
