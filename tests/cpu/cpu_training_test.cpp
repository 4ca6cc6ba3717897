// The forward for training and the backward of the CPU: sizes, head dims, types, kinds of data and
// layouts, with the source of every target, or of each in turn.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/numerics.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

TEST(CpuTraining, EveryLength) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const bool causal : {false, true}) {
    const Problem problem = forward_problem(DType::kFp32, 16, 16, 15, causal);
    // Around rows (6), panels (16, 64), tiles (48 queries, 96 and 192 keys); decoding; more queries
    // than keys.
    for (const auto& [q, k] : std::vector<std::pair<int, int>>{{5, 0},
                                                               {1, 1},
                                                               {2, 3},
                                                               {3, 2},
                                                               {5, 15},
                                                               {7, 17},
                                                               {13, 65},
                                                               {1, 255},
                                                               {47, 95},
                                                               {48, 96},
                                                               {49, 97},
                                                               {97, 97},
                                                               {64, 31},
                                                               {3, 1},
                                                               {6, 191},
                                                               {5, 193},
                                                               {101, 331},
                                                               {257, 101}})
      check_training(problem, sizes_with(1, 2, 2, q, k), InputKind::kGauss);
  }
}

// Each with one target in turn: both have multiples of 16 and odd multiples of 8.
TEST(CpuTraining, EveryHeadDim) {
  LSSAR_NEEDS_CPU_KERNELS();
  size_t turn = 0;
  for (const auto& [d, dv] : std::vector<std::pair<int, int>>{{8, 8},
                                                              {8, 64},
                                                              {24, 40},
                                                              {64, 64},
                                                              {72, 16},
                                                              {96, 104},
                                                              {128, 128},
                                                              {192, 136},
                                                              {256, 256}})
    check_training(forward_problem(DType::kFp32, d, dv, 15, true), sizes_with(1, 1, 1, 70, 70),
                   InputKind::kGauss, {}, 20261125, target_in_turn(turn++));
}

// The reference has no gradients without queries: they are zeros.
TEST(CpuTraining, WithoutQueriesGradientsAreZeros) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 16, 24, 15, true);
  for (const int keys : {0, 5, 100})
    for (const std::string& target : cpu_target_names()) {
      const Sizes sizes = sizes_with(1, 2, 2, 0, keys);
      RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 4);
      if (keys != 0) in.k[2 * 16] = kNan;  // no query sees it
      const auto out = run_cpu_training(target, problem, sizes, {in.q, in.k, in.v, in.grad_o});
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      EXPECT_EQ(out->dk, std::vector<float>(static_cast<size_t>(2 * keys * 16), 0.0f));
      EXPECT_EQ(out->dv, std::vector<float>(static_cast<size_t>(2 * keys * 24), 0.0f));
    }
}

class CpuTrainingTypes : public testing::TestWithParam<DType> {
 protected:
  static void check(const Problem& problem, const Sizes& sizes, size_t turn) {
    check_training(problem, sizes, InputKind::kGauss, {}, 20261125, target_in_turn(turn));
  }
};

// A dim has one target in bf16 and the other in fp16.
TEST_P(CpuTrainingTypes, HeadDims) {
  LSSAR_NEEDS_CPU_KERNELS();
  size_t turn = GetParam() == DType::kFp16 ? 1 : 0;
  for (const auto& [d, dv] :
       std::vector<std::pair<int, int>>{{8, 8}, {24, 40}, {64, 64}, {128, 72}})
    check(forward_problem(GetParam(), d, dv, 15, true), sizes_with(1, 2, 1, 50, 90), turn++);
}

TEST_P(CpuTrainingTypes, Data) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 64, 64, 15, false);
  for (const InputKind kind : kSpecialKinds)
    check_training(problem, sizes_with(1, 1, 1, 100, 300), kind);
}

// The power is computed in float32 whatever the type: fp32 has every power, the others some, with
// the other target.
TEST_P(CpuTrainingTypes, Powers) {
  LSSAR_NEEDS_CPU_KERNELS();
  const std::vector<int> powers = GetParam() == DType::kFp32   ? std::vector{0, 1, 2, 15, 64}
                                  : GetParam() == DType::kBf16 ? std::vector{0, 2, 64}
                                                               : std::vector{1, 15};
  for (const int p : powers)
    for (const double offset : {0.0, 1.0, 0.75}) {
      // The offset is one constant of the kernel: all of them at the default power.
      if (offset != (p == 0 ? 0.0 : 1.0) && p != 15) continue;
      if (offset == 0.0 && p == 15 && GetParam() != DType::kFp32) continue;
      Problem problem = forward_problem(GetParam(), 32, 32, p, true);
      problem.offset = offset;
      check(problem, sizes_with(1, 1, 1, 90, 90), turn_of_power(GetParam(), p, offset));
    }
}

// Query heads are added up over the kv head that they share.
TEST_P(CpuTrainingTypes, LayoutsAndHeadGroups) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const int gap : {0, 1, 13}) {
    CpuRun run;
    run.gap = gap;
    check_training(forward_problem(GetParam(), 40, 24, 3, true), sizes_with(2, 6, 2, 37, 53),
                   InputKind::kGauss, run);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuTrainingTypes,
                         testing::Values(DType::kFp32, DType::kBf16, DType::kFp16),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(dtype_name(info.param));
                         });

TEST(CpuTraining, EverySchedule) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 64, 40, 15, true);
  for (const CpuOptions& cpu : {CpuOptions{1, 16, 16, 8192}, CpuOptions{4, 32, 64, 64},
                                CpuOptions{3, 48, 96, 192}, CpuOptions{5, 16, 32, 0}}) {
    CpuRun run;
    run.schedule = default_schedule(problem, *target_from_name("x86-64-v3"));
    run.schedule->cpu = cpu;
    run.schedule->dq_mode = cpu.rows < 4 ? DqMode::kOrdered : DqMode::kSplit;
    const RandomInputs in =
        random_inputs(problem, sizes_with(1, 1, 1, 110, 250), InputKind::kGauss, 5);
    const Sizes sizes = sizes_with(1, 1, 1, 110, 250);
    const auto expected = reference_attention(
        problem, sizes, {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o)});
    ASSERT_TRUE(expected.ok());
    for (const std::string& target : cpu_target_names()) {
      if (!validate(*run.schedule, problem, *target_from_name(target)).ok()) continue;
      SCOPED_TRACE(target + ": " + to_string(*run.schedule));
      expect_gradients(
          problem, *expected,
          run_cpu_training(target, problem, sizes, {in.q, in.k, in.v, in.grad_o}, run));
    }
  }
}

// What is saved: what rounding took from o, the statistics of the other forward, and X by its
// definition.
TEST(CpuTraining, SavesWhatTheDocumentsSay) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int kDim = 32, kRows = 60;
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const Problem problem = forward_problem(dtype, kDim, kDim, 3, true);
    const Sizes sizes = sizes_with(1, 1, 1, kRows, kRows);
    const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 12);
    const CpuInputs inputs = {in.q, in.k, in.v, in.grad_o};
    for (const std::string& target : cpu_target_names()) {
      const auto out = run_cpu_training(target, problem, sizes, inputs);
      const auto forward = run_cpu_kernel(target, problem, sizes, inputs);
      ASSERT_TRUE(out.ok() && forward.ok());
      if (dtype == DType::kFp32) {
        EXPECT_EQ(out->o, forward->o);
        EXPECT_EQ(out->stats, forward->stats);
      }
      ASSERT_EQ(out->saved_x.size(), size_t{kRows * kDim});
      double error = 0, norm = 0, error_of_o = 0, norm_of_o = 0;
      for (int i = 0; i < kRows; ++i) {
        const auto dot = [](const float* a, const float* b) {
          double sum = 0;
          for (int d = 0; d < kDim; ++d) sum += double{a[d]} * b[d];
          return sum;
        };
        const float* q = &in.q[i * kDim];
        const int keys = i + 1;
        std::vector<double> u;
        double sum = 0, z = 0, t = 0;
        for (int j = 0; j < keys; ++j) {
          const float* k = &in.k[j * kDim];
          u.push_back(std::log1p(std::exp(std::log(kDim) * std::log(keys) * dot(q, k) /
                                          std::sqrt(dot(q, q) * dot(k, k)))));
          sum += u[j];
        }
        for (double& x : u) {
          x = std::max(keys * x / sum - (keys <= 3 ? 0.0 : 1.0), 0.0);
          z += x * x * x;
          t += x * x;
        }
        for (int d = 0; d < kDim; ++d) {
          double y = 0, o = 0;
          for (int j = 0; j < keys; ++j) {
            y += u[j] * u[j] * in.v[j * kDim + d] / z;
            o += u[j] * u[j] * u[j] * in.v[j * kDim + d] / z;
          }
          const double x = y - t / z * o;
          error += std::pow(out->saved_x[i * kDim + d] - x, 2);
          norm += x * x;
          error_of_o += std::pow(out->unrounded_o[i * kDim + d] - o, 2);
          norm_of_o += o * o;
        }
      }
      // Rounding o to bf16 is an error of 1.5e-3.
      EXPECT_LE(std::sqrt(error_of_o), 1e-4 * std::sqrt(norm_of_o)) << target;
      EXPECT_LE(std::sqrt(error), (dtype == DType::kFp32 ? 1e-4 : 3e-3) * std::sqrt(norm))
          << target << " " << dtype_name(dtype);
    }
  }
}

TEST(CpuTraining, WithoutAnOffsetNoXIsSaved) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = forward_problem(DType::kFp32, 16, 16, 15, true);
  problem.offset = 0;
  const Sizes sizes = sizes_with(1, 1, 1, 20, 20);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 13);
  const auto out =
      run_cpu_training(cpu_target_names()[0], problem, sizes, {in.q, in.k, in.v, in.grad_o});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_TRUE(out->saved_x.empty());
}

bool all_zero(const std::vector<float>& values, int64_t first, int64_t count) {
  return std::all_of(values.begin() + first, values.begin() + first + count,
                     [](float x) { return x == 0.0f; });
}

// Rows 0 to 9 see no keys, rows 13 and later are dead, because all keys are equal.
TEST(CpuTraining, DeadRowsAndRowsWithoutKeysHaveNoGradient) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 16, 16, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 70, 60);
  RandomInputs in = random_inputs(problem, sizes, InputKind::kTies, 10);
  in.grad_o[0] = kNan;  // of a row that reads nothing
  in.q[4 * 16 + 2] = kNan;
  for (const std::string& target : cpu_target_names())
    for (const DqMode mode : {DqMode::kOrdered, DqMode::kSplit}) {
      SCOPED_TRACE(target + " " + std::to_string(static_cast<int>(mode)));
      CpuRun run;
      run.schedule = default_schedule(problem, *target_from_name(target));
      run.schedule->dq_mode = mode;
      const auto out = run_cpu_training(target, problem, sizes, {in.q, in.k, in.v, in.grad_o}, run);
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      for (int64_t row = 0; row < 70; ++row) {
        const bool is_alive = row >= 10 && row < 13;
        EXPECT_TRUE(is_alive || all_zero(out->dq, row * 16, 16)) << row;
      }
      for (int64_t key = 0; key < 60; ++key) {
        EXPECT_EQ(all_zero(out->dv, key * 16, 16), key >= 3) << key;
        EXPECT_FALSE(has_nan(out->dv, key * 16, 16)) << key;
        EXPECT_FALSE(has_nan(out->dk, key * 16, 16)) << key;
      }
    }
}

// A NaN in an input of one kv head never reaches the other, and no gradient that depends on it is a
// number. LSSA: no weight is 0.
TEST(CpuTraining, NanStaysInItsHeadAndIsNotHidden) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int kDim = 24, kLength = 50;
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const Problem problem = forward_problem(dtype, kDim, kDim, 0, false);
    const Sizes sizes = sizes_with(1, 2, 2, kLength, kLength);
    for (const int input : {0, 1, 2, 3})
      for (const std::string& target : cpu_target_names()) {
        const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 9);
        CpuInputs inputs = {in.q, in.k, in.v, in.grad_o};
        std::vector<float>* const tensors[] = {&inputs.q, &inputs.k, &inputs.v, &inputs.grad_o};
        (*tensors[input])[20 * kDim + 5] = kNan;
        const auto out = run_cpu_training(target, problem, sizes, inputs);
        ASSERT_TRUE(out.ok()) << out.status().to_string();
        SCOPED_TRACE(target + " " + dtype_name(dtype) + " input " + std::to_string(input));
        for (const auto* gradient : {&out->dq, &out->dk, &out->dv})
          EXPECT_FALSE(has_nan(*gradient, kLength * kDim, kLength * kDim));
        for (int64_t row = 0; row < kLength; ++row) {
          // A key, and a value, is in every row; a query and its gradient are in one.
          const bool in_row = input == 1 || input == 2 || row == 20;
          EXPECT_EQ(has_nan(out->dq, row * kDim, kDim), in_row) << row;
          EXPECT_TRUE(has_nan(out->dk, row * kDim, kDim)) << row;
          EXPECT_TRUE(input == 2 || has_nan(out->dv, row * kDim, kDim)) << row;
        }
      }
  }
}

}  // namespace
}  // namespace lssar
