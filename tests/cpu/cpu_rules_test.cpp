// Rows without keys, dead rows, NaN, vectors of length 0, and the statistics that a forward writes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class CpuRules : public testing::TestWithParam<DType> {};

TEST_P(CpuRules, NanInAQueryIsInItsRowOnly) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 24, 40, 15, false);
  const Sizes sizes = sizes_with(1, 1, 1, 20, 300);
  for (const float bad : {kNan, kInf, -kInf})
    for (const std::string& target : cpu_target_names()) {
      RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 7);
      in.q[9 * 24 + 17] = bad;
      const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      for (int64_t row = 0; row < 20; ++row) {
        EXPECT_EQ(all_nan(out->o, row * 40, 40), row == 9) << target << " row " << row;
        EXPECT_EQ(has_nan(out->o, row * 40, 40), row == 9) << target << " row " << row;
      }
    }
}

TEST_P(CpuRules, NanInAKeyIsInTheRowsThatSeeIt) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 24, 40, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 90, 90);
  for (const float bad : {kNan, kInf})
    for (const std::string& target : cpu_target_names()) {
      RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 8);
      in.k[50 * 24 + 3] = bad;
      const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      for (int64_t row = 0; row < 90; ++row) {
        EXPECT_EQ(all_nan(out->o, row * 40, 40), row >= 50) << target << " row " << row;
        EXPECT_EQ(has_nan(out->o, row * 40, 40), row >= 50) << target << " row " << row;
      }
    }
}

// Its weight is far from 0 in every row. Other heads keep their numbers.
TEST_P(CpuRules, NanInAValueStaysInItsHead) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 16, 16, 0, false);
  const Sizes sizes = sizes_with(1, 2, 2, 10, 40);
  for (const std::string& target : cpu_target_names()) {
    RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 9);
    in.v[30 * 16 + 5] = kNan;
    const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    for (int64_t row = 0; row < 20; ++row)
      EXPECT_EQ(has_nan(out->o, row * 16, 16), row < 10) << target << " row " << row;
  }
}

// Not even by rounding, where a tiny offset leaves the weight of an activation of 0 near 0.
TEST_P(CpuRules, ValuesThatARowDoesNotSeeAddNothing) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16, kRows = 60, kFirst = 40;
  Problem problem = forward_problem(GetParam(), kDim, kDim, 1, true);
  problem.offset = 1e-7;
  const Sizes sizes = sizes_with(1, 1, 1, kRows, kRows);
  RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 3);
  for (const std::string& target : cpu_target_names()) {
    const auto outputs_with = [&](float value) {
      std::fill(in.v.begin() + kFirst * kDim, in.v.end(), value);
      return run_cpu_training(target, problem, sizes, {in.q, in.k, in.v, in.grad_o});
    };
    const auto small = outputs_with(0.0f), large = outputs_with(60000.0f);
    ASSERT_TRUE(small.ok() && large.ok());
    const auto rows = [](const std::vector<float>& all) {
      return std::vector(all.begin(), all.begin() + kFirst * kDim);
    };
    EXPECT_EQ(rows(small->unrounded_o), rows(large->unrounded_o)) << target;
    EXPECT_EQ(rows(small->saved_x), rows(large->saved_x)) << target;
  }
}

TEST_P(CpuRules, DeadRowsAndRowsWithoutKeysAreZeros) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 16, 16, 15, true);
  const Sizes sizes = sizes_with(1, 1, 1, 70, 60);  // rows 0 to 9 see no keys
  RandomInputs in = random_inputs(problem, sizes, InputKind::kTies, 10);
  in.v[0] = kNan;  // even where a value that weighs nothing is a NaN
  for (const std::string& target : cpu_target_names()) {
    const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    for (int64_t row = 0; row < 70; ++row) {
      const bool lives = row >= 10 && row < 13;  // of 1 to 3 keys, with no offset
      const bool is_zero = std::all_of(out->o.begin() + row * 16, out->o.begin() + row * 16 + 16,
                                       [](float x) { return x == 0.0f; });
      EXPECT_EQ(is_zero, !lives) << target << " row " << row;
    }
  }
}

// All scores are equal, with so many keys that a plain float sum would no longer give N P = 1.
TEST_P(CpuRules, LongDeadRows) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(GetParam(), 8, 8, 15, false);
  const Sizes sizes = sizes_with(1, 1, 1, 2, 300007);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kTies, 11);
  for (const std::string& target : cpu_target_names()) {
    const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    EXPECT_EQ(out->o, std::vector<float>(16, 0.0f)) << target;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuRules, testing::Values(DType::kFp32, DType::kBf16, DType::kFp16),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(dtype_name(info.param));
                         });

// R, m, zs and the largest score in bits, by the definition in double.
TEST(CpuStatistics, AreThoseOfTheDefinition) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 32, 32, 15, true);
  const int n = 80;
  const Sizes sizes = sizes_with(1, 1, 1, n, n);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 12);
  const auto dot = [](const float* a, const float* b) {
    double sum = 0;
    for (int d = 0; d < 32; ++d) sum += double{a[d]} * b[d];
    return sum;
  };
  for (const std::string& target : cpu_target_names()) {
    const auto out = run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v});
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    for (int i = 0; i < n; ++i) {
      const float* q = &in.q[i * 32];
      const int keys = i + 1;
      std::vector<double> scores;
      double sum = 0, largest = -1e30;
      for (int j = 0; j < keys; ++j) {
        const float* k = &in.k[j * 32];
        scores.push_back(std::log(32.0) * std::log(keys) * dot(q, k) /
                         std::sqrt(dot(q, q) * dot(k, k)));
        sum += std::log1p(std::exp(scores[j]));
        largest = std::max(largest, scores[j]);
      }
      const double b = keys <= 3 ? 0.0 : 1.0;
      const double m = keys * std::log1p(std::exp(largest)) / sum - b;
      double zs = 0;
      for (const double s : scores)
        zs += std::pow(std::max(keys * std::log1p(std::exp(s)) / sum - b, 0.0) / m, 15);
      EXPECT_NEAR(out->stats[i], sum, 1e-5 * sum) << target << " row " << i;
      EXPECT_NEAR(out->stats[n + i], m, 1e-5 * (m + b)) << target << " row " << i;
      EXPECT_NEAR(out->stats[2 * n + i], zs, 1e-4 * zs) << target << " row " << i;
      EXPECT_NEAR(out->stats[3 * n + i], largest / std::log(2.0), 1e-5) << target << " row " << i;
    }
  }
}

}  // namespace
}  // namespace lssar
