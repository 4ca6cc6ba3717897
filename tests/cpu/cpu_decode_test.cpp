// Calls of few queries (templates/cpu/few_queries.h): one kernel for all of these.
#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/cpu/cpu_shapes.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

const Problem& decode_problem() {
  static const Problem made = forward_problem(DType::kBf16, 24, 40, 15, true);
  return made;
}

// Around the lanes (8, 16), steps of evaluation (32, 64) and chunks (512), for 1 to 16 rows that
// share a head's keys. With 17 rows keys are packed.
TEST(CpuDecode, EveryLengthAndGroup) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const auto& [heads, kv_heads, q, k] : std::vector<std::array<int, 4>>{{1, 1, 1, 1},
                                                                             {2, 2, 1, 7},
                                                                             {2, 1, 1, 8},
                                                                             {4, 2, 1, 9},
                                                                             {8, 1, 1, 63},
                                                                             {4, 1, 2, 64},
                                                                             {2, 2, 8, 65},
                                                                             {2, 2, 17, 129},
                                                                             {17, 1, 1, 130},
                                                                             {1, 1, 3, 257},
                                                                             {6, 3, 4, 511},
                                                                             {1, 1, 5, 512},
                                                                             {8, 1, 2, 513},
                                                                             {3, 1, 5, 1030},
                                                                             {2, 1, 16, 3}})
    check_forward(decode_problem(), sizes_with(2, heads, kv_heads, q, k), InputKind::kGauss);
  for (const InputKind kind : kSpecialKinds)
    check_forward(decode_problem(), sizes_with(1, 2, 1, 2, 300), kind);
  CpuRun run;
  run.gap = 13;
  check_forward(decode_problem(), sizes_with(2, 4, 2, 2, 77), InputKind::kGauss, run);
}

TEST(CpuDecode, AMillionKeys) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kBf16, 8, 8, 15, true);
  check_forward(problem, sizes_with(1, 2, 1, 1, int64_t{1} << 20), InputKind::kGauss);
}

// Its statistics are those of many queries, but for rounding. A row that is one of many, and the
// same row alone: query 99 of 100 sees all keys.
TEST(CpuDecode, AgreesWithTheRowOfMany) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes many = sizes_with(1, 1, 1, 100, 300), one = sizes_with(1, 1, 1, 1, 300);
  RandomInputs in = random_inputs(decode_problem(), many, InputKind::kGauss, 7);
  const std::string target = cpu_target_names()[0];
  const auto of_many = run_cpu_kernel(target, decode_problem(), many, {in.q, in.k, in.v});
  in.q.erase(in.q.begin(), in.q.end() - 24);
  const auto of_one = run_cpu_kernel(target, decode_problem(), one, {in.q, in.k, in.v});
  ASSERT_TRUE(of_many.ok() && of_one.ok());
  for (int i = 0; i < 4; ++i) {
    const float expected = of_many->stats[100 * i + 99];
    EXPECT_NEAR(of_one->stats[i], expected, 1e-4 * std::abs(expected)) << "number " << i;
  }
}

// A NaN in a key is in every row, one in a query in that row. A value that weighs nothing is not
// read, and one that weighs something is.
TEST(CpuDecode, NanIsInTheRowsThatSeeIt) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 2, 1, 2, 290);
  const auto rows_with_nan = [&](const RandomInputs& in) {
    const auto out =
        run_cpu_kernel(cpu_target_names()[0], decode_problem(), sizes, {in.q, in.k, in.v});
    std::string rows;
    for (int64_t row = 0; out.ok() && row < 4; ++row)
      rows += all_nan(out->o, row * 40, 40) ? "n" : has_nan(out->o, row * 40, 40) ? "?" : "-";
    return rows;
  };
  const RandomInputs good = random_inputs(decode_problem(), sizes, InputKind::kGauss, 8);
  EXPECT_EQ(rows_with_nan(good), "----");
  RandomInputs in = good;
  in.k[200 * 24 + 23] = kNan;
  EXPECT_EQ(rows_with_nan(in), "nnnn");
  in = good;
  in.k[289 * 24] = kNan;  // only the second query of a head sees the last key
  EXPECT_EQ(rows_with_nan(in), "-n-n");
  in = good;
  in.q[2 * 24 + 5] = kNan;
  EXPECT_EQ(rows_with_nan(in), "--n-");
  in = good;
  in.v[7 * 40 + 39] = kNan;
  for (int d = 0; d < 24; ++d) in.k[7 * 24 + d] = in.q[3 * 24 + d];  // the largest score of row 3
  EXPECT_EQ(rows_with_nan(in).substr(3), "?");
}

// One query whose first `num_near` keys are the query itself, and the others its opposite.
RandomInputs near_and_far(const Sizes& sizes, int64_t num_near) {
  RandomInputs in = random_inputs(decode_problem(), sizes, InputKind::kGauss, 9);
  for (int64_t key = 0; key < sizes.seq_k; ++key)
    for (size_t d = 0; d < 24; ++d)
      in.k[static_cast<size_t>(key) * 24 + d] = key < num_near ? in.q[d] : -in.q[d];
  return in;
}

// A value that weighs nothing is not read, unless most values of its chunk of 512 keys are. With
// 384 of 512 keys all are read, and a NaN that weighs nothing shows.
TEST(CpuDecode, ValuesAreReadWhereTheyMatterOrAllOfThem) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 1, 1, 1, 700);
  for (const auto& [num_near, is_dense] :
       std::vector<std::pair<int64_t, bool>>{{1, false}, {383, false}, {384, true}}) {
    RandomInputs in = near_and_far(sizes, num_near);
    const auto run = [&] {
      return run_cpu_kernel(cpu_target_names()[0], decode_problem(), sizes, {in.q, in.k, in.v});
    };
    const auto good = run();
    ASSERT_TRUE(good.ok()) << good.status().to_string();
    in.v[511 * 40 + 3] = kNan;
    const auto far = run();
    in.v[511 * 40 + 3] = 0;
    in.v[699 * 40 + 3] = kNan;  // in a chunk without near keys
    const auto other_chunk = run();
    ASSERT_TRUE(far.ok() && other_chunk.ok());
    EXPECT_EQ(has_nan(far->o, 0, 40), is_dense) << num_near;
    if (!is_dense) {
      EXPECT_EQ(far->o, good->o) << num_near;
    }
    EXPECT_FALSE(has_nan(other_chunk->o, 0, 40)) << num_near;
  }
}

// The weights of one query in float64: 1 is the largest.
std::vector<double> weights_of_one(const RandomInputs& in, size_t keys) {
  const double scale = std::log(24.0) * std::log(static_cast<double>(keys));
  const auto dot = [](const float* a, const float* b) {
    double sum = 0;
    for (int d = 0; d < 24; ++d) sum += double{a[d]} * b[d];
    return sum;
  };
  std::vector<double> weights;
  double sum = 0;
  for (size_t key = 0; key < keys; ++key) {
    const float* const k = &in.k[key * 24];
    const double cosine = dot(in.q.data(), k) / std::sqrt(dot(k, k) * dot(&in.q[0], &in.q[0]));
    weights.push_back(std::log1p(std::exp(scale * cosine)));
    sum += weights.back();
  }
  for (double& x : weights)
    x = std::pow(std::max(static_cast<double>(keys) * x / sum - 1, 0.0), 15);
  const double largest = *std::max_element(weights.begin(), weights.end());
  for (double& x : weights) x /= largest;
  return weights;
}

// The rule reads less than a tenth of 5000 values of Gaussian keys. The others may be NaN.
TEST(CpuDecode, ReadsTheValuesThatTheRuleNames) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 1, 1, 1, 5000);
  RandomInputs in = random_inputs(decode_problem(), sizes, InputKind::kGauss, 11);
  const auto run = [&] {
    return run_cpu_kernel(cpu_target_names()[0], decode_problem(), sizes, {in.q, in.k, in.v});
  };
  const auto good = run();
  const std::vector<double> weights = weights_of_one(in, 5000);
  const double least = 0x1p-12 / 5000;
  size_t num_read = 0, smallest = 0;
  for (size_t key = 0; key < 5000; ++key) {
    if (weights[key] > 2 * least && (num_read == 0 || weights[key] < weights[smallest]))
      smallest = key;
    if (weights[key] > least / 2)
      ++num_read;
    else
      in.v[key * 40] = kNan;
  }
  EXPECT_LT(num_read, 500u);
  const auto same = run();
  in.v[smallest * 40] = kNan;
  const auto bad = run();
  ASSERT_TRUE(good.ok() && same.ok() && bad.ok());
  EXPECT_EQ(same->o, good->o);
  EXPECT_TRUE(has_nan(bad->o, 0, 40));
}

// The same of tiles of rows, here of one query 40 times, where kernels skip keys.
TEST(CpuForward, MultipliesTheValuesThatTheRuleNames) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 1, 1, 40, 5000);
  int num_skipping = 0;
  for (const auto& [dtype, least] : std::vector<std::pair<DType, double>>{
           {DType::kFp32, 0x1p-24 / 5000}, {DType::kBf16, 0x1p-12 / 5000}}) {
    const Problem problem = forward_problem(dtype, 24, 40, 15, false);
    RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 12);
    for (size_t i = 24; i < in.q.size(); ++i) in.q[i] = in.q[i - 24];
    std::vector<double> weights = weights_of_one(in, 5000);
    if (dtype == DType::kFp32)  // these list keys by u^(p - 1)
      for (double& x : weights) x = std::pow(x, 14.0 / 15);
    RandomInputs unread = in, read = in;
    size_t lightest = 0;
    for (size_t key = 0; key < 5000; ++key) {
      if (weights[key] < least / 2) unread.v[key * 40] = kNan;
      const bool counts = weights[key] > 2 * least;
      if (counts && (weights[lightest] <= 2 * least || weights[key] < weights[lightest]))
        lightest = key;
    }
    read.v[lightest * 40] = kNan;
    for (const std::string& target : cpu_target_names()) {
      if (!cpu_skips_keys(problem, *target_from_name(target))) continue;
      ++num_skipping;
      const auto run = [&](const RandomInputs& inputs) {
        return run_cpu_kernel(target, problem, sizes, {inputs.q, inputs.k, inputs.v});
      };
      const auto good = run(in), same = run(unread), bad = run(read);
      ASSERT_TRUE(good.ok() && same.ok() && bad.ok()) << target;
      EXPECT_EQ(same->o, good->o) << target << " " << dtype_name(dtype);
      EXPECT_TRUE(has_nan(bad->o, 0, 40)) << target << " " << dtype_name(dtype);
    }
  }
  EXPECT_GE(num_skipping, 2);
}

// Rows that share values read those that matter to one of them: a value of the largest weight in
// the last row of 16 counts, whatever the others weigh.
TEST(CpuDecode, EveryRowHasTheValuesThatMatterToIt) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 4, 1, 4, 1500);
  RandomInputs in = random_inputs(decode_problem(), sizes, InputKind::kGauss, 10);
  for (size_t row = 0; row < 16; ++row) {
    const size_t key = 90 * (row + 1);
    for (size_t d = 0; d < 24; ++d) in.k[key * 24 + d] = in.q[row * 24 + d];
    in.v[key * 40 + row] = 100;
  }
  const auto out =
      run_cpu_kernel(cpu_target_names()[0], decode_problem(), sizes, {in.q, in.k, in.v});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (size_t row = 0; row < 16; ++row) EXPECT_GT(out->o[row * 40 + row], 20) << row;
}

}  // namespace
}  // namespace lssar
