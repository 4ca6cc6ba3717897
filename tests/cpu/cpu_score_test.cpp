// Score functions beside the default one on the cpu device: sizes and layouts, keys that a row does
// not see, numbers that are none, dead rows, any number of threads. family_kernels_test and
// family_rules_test have every function.
#include <algorithm>
#include <cmath>
#include <limits>

#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

Problem scored(const char* score, int p, int dim, int dim_v) {
  Problem problem = forward_problem(DType::kFp32, dim, dim_v, p, true);
  const auto parsed = parse_score(score);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  if (parsed.ok()) problem.score = *parsed;
  return problem;
}

std::string lowest() { return cpu_target_names()[0]; }

CpuInputs inputs_of(const Problem& problem, const Sizes& sizes) {
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 41);
  return {in.q, in.k, in.v, in.grad_o};
}

bool is_zero(const std::vector<float>& values, int64_t first, int64_t count) {
  return std::all_of(values.begin() + first, values.begin() + first + count,
                     [](float x) { return x == 0.0f; });
}

// The smallest and the largest head dims, and lengths around rows, panels and blocks. Heads share
// keys, and rows are apart.
TEST(CpuScore, SizesAndLayouts) {
  LSSAR_NEEDS_CPU_KERNELS();
  CpuRun apart;
  apart.gap = 13;
  const Problem softmax = scored("softmax", 0, 8, 256);
  for (const auto& [q, k] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 3}, {5, 0}, {13, 65}, {37, 29}, {3, 521}})
    check_training(softmax, sizes_with(2, 4, 2, q, k), InputKind::kGauss, apart);
  check_training(scored("lssar", 1000, 256, 8), sizes_with(1, 2, 1, 97, 293), InputKind::kGauss);
  Problem half = scored("phi=gelu,normalizer=sum_abs", 3, 24, 40);
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    half.dtype = dtype;
    check_forward(half, sizes_with(1, 2, 1, 53, 67), InputKind::kGauss, apart);
  }
}

// Rows have the same bits whatever the keys and values are that they do not see: where phi(0) or
// psi(0) is not 0, and where these numbers are huge. (In the product of dq a hidden NaN, times a
// gradient of 0, may be seen.)
TEST(CpuScore, HiddenKeysAddNothing) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16, kRows = 61, kFirst = 40;
  const Sizes sizes = sizes_with(1, 1, 1, kRows, kRows);
  for (const char* score : {"phi=x^2 + 1,normalizer=sum", "softmax,psi=x^2 + 1",
                            "phi=relu(x) + 1,normalizer=length,psi=x^2 + 1,psi_normalizer=sum"}) {
    const Problem problem = scored(score, 0, kDim, kDim);
    CpuInputs inputs = inputs_of(problem, sizes);
    const auto usual = run_cpu_training(lowest(), problem, sizes, inputs);
    for (const float hidden : {1e15f, kNan}) {
      std::fill(inputs.k.begin() + kFirst * kDim, inputs.k.end(), hidden);
      std::fill(inputs.v.begin() + kFirst * kDim, inputs.v.end(), 1e30f);
      const auto other = run_cpu_training(lowest(), problem, sizes, inputs);
      ASSERT_TRUE(usual.ok() && other.ok());
      const auto rows = [](const std::vector<float>& all) {
        return std::vector(all.begin(), all.begin() + kFirst * kDim);
      };
      EXPECT_EQ(rows(usual->o), rows(other->o)) << score;
      EXPECT_EQ(rows(usual->unrounded_o), rows(other->unrounded_o)) << score;
      if (hidden == hidden) {
        EXPECT_EQ(rows(usual->dq), rows(other->dq)) << score;
      }
    }
  }
}

// A power that no special kernel has: rows of equal scores are dead, the first rows see no key.
TEST(CpuScore, DeadRowsAndRowsWithoutKeys) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16;
  const Problem problem = scored("lssar", 1000, kDim, kDim);
  const Sizes sizes = sizes_with(1, 1, 1, 70, 60);
  RandomInputs in = random_inputs(problem, sizes, InputKind::kTies, 10);
  in.grad_o[0] = kNan;  // of a row that reads nothing
  const auto out = run_cpu_training(lowest(), problem, sizes, {in.q, in.k, in.v, in.grad_o});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (int64_t row = 0; row < 70; ++row) {
    const bool lives = row >= 10 && row < 13;  // of 1 to 3 keys, with no offset
    EXPECT_EQ(is_zero(out->o, row * kDim, kDim), !lives) << row;
    EXPECT_TRUE(lives || is_zero(out->dq, row * kDim, kDim)) << row;
  }
  EXPECT_FALSE(has_nan(out->dk, 0, 60 * kDim) || has_nan(out->dv, 0, 60 * kDim));
}

// In exactly the rows that see it, although a maximum, a clamp or a comparison could hide it.
TEST(CpuScore, WhatIsNoNumberIsNotHidden) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16, kRows = 40, kKey = 21, kQuery = 9;
  const Sizes sizes = sizes_with(1, 1, 1, kRows, kRows);
  for (const auto& [score, p] : std::vector<std::pair<const char*, int>>{
           {"softmax", 3},
           {"sigmoid,soft_cap=2", 0},
           {"phi=where(x < 0, 0, min(x, 6)),qk_norm=false,normalizer=sum_abs", 0}}) {
    const Problem problem = scored(score, p, kDim, kDim);
    for (const float bad : {kNan, -std::numeric_limits<float>::infinity()}) {
      CpuInputs inputs = inputs_of(problem, sizes);
      inputs.k[kKey * kDim + 3] = inputs.q[kQuery * kDim + 5] = bad;
      const auto out = run_cpu_training(lowest(), problem, sizes, inputs);
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      for (int64_t row = 0; row < kRows; ++row) {
        const bool is_bad = row == kQuery || row >= kKey;
        EXPECT_EQ(all_nan(out->o, row * kDim, kDim), is_bad) << score << " row " << row;
        EXPECT_EQ(has_nan(out->o, row * kDim, kDim), is_bad) << score << " row " << row;
        EXPECT_TRUE(!is_bad || has_nan(out->dq, row * kDim, kDim)) << score << " row " << row;
      }
      EXPECT_TRUE(has_nan(out->dk, kKey * kDim, kDim)) << score;
    }
  }
}

// Lengths around rows, panels and blocks; heads share keys. Scores of an exponential, of
// LSSAR's own score function, and within a window; epsilon as a sum.
TEST(CpuScore, CappedAndFallingWithDistance) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem both = scored("softmax,soft_cap=1.5,alibi=per_head", 0, 24, 16);
  size_t turn = 0;
  for (const auto& [q, k] : std::vector<std::pair<int, int>>{
           {1, 1}, {1, 523}, {5, 0}, {13, 65}, {37, 29}, {64, 64}, {67, 257}})
    check_training(both, sizes_with(2, 4, 2, q, k), InputKind::kGauss, {}, 20261125,
                   target_in_turn(turn++));
  check_training(both, sizes_with(1, 2, 1, 61, 97), InputKind::kPeaky, {}, 20261125,
                 target_in_turn(0));
  check_training(scored("lssar,soft_cap=4,alibi=per_head", 3, 16, 24), sizes_with(1, 3, 1, 97, 130),
                 InputKind::kGauss, {}, 20261125, target_in_turn(0));
  Problem window = scored("softmax,soft_cap=2,alibi=per_head,psi=(x-b)/N", 0, 16, 16);
  window.causal = false;
  window.window_left = 40;
  window.window_right = 9;
  check_training(window, sizes_with(1, 2, 2, 130, 131), InputKind::kGauss, {}, 20261125,
                 target_in_turn(1));
}

// A NaN slope spoils its head. A NaN key spoils the rows that see it.
TEST(CpuScore, NoNumbersBehindACap) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16, kRows = 40, kKey = 21;
  const Problem problem = scored("softmax,soft_cap=2,alibi=per_head", 0, kDim, kDim);
  const Sizes sizes = sizes_with(1, 2, 2, kRows, kRows);
  CpuInputs inputs = inputs_of(problem, sizes);
  inputs.alibi_slopes = {kNan, 0.5f};
  inputs.k[(kRows + kKey) * kDim + 3] = kNan;  // of the second head
  const auto out = run_cpu_training(lowest(), problem, sizes, inputs);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (int64_t row = 0; row < 2 * kRows; ++row) {
    const bool is_bad = row < kRows || row >= kRows + kKey;
    EXPECT_EQ(all_nan(out->o, row * kDim, kDim), is_bad) << row;
    EXPECT_EQ(has_nan(out->o, row * kDim, kDim), is_bad) << row;
    EXPECT_TRUE(!is_bad || has_nan(out->dq, row * kDim, kDim)) << row;
  }
}

// Rows have the same bits alone and among others.
TEST(CpuScore, InvariantWithACapAndSlopes) {
  LSSAR_NEEDS_CPU_KERNELS();
  constexpr int64_t kDim = 16, kRows = 37, kKeys = 300;
  Problem problem = scored("softmax,soft_cap=2,alibi=per_head", 0, kDim, kDim);
  problem.invariant = true;
  const Sizes all = sizes_with(1, 2, 1, kRows, kKeys), one = sizes_with(1, 2, 1, 1, kKeys);
  CpuInputs inputs = inputs_of(problem, all);
  inputs.alibi_slopes = {0.25f, -0.125f};
  const auto many = run_cpu_kernel(lowest(), problem, all, inputs);
  CpuInputs last = inputs;
  last.q.clear();
  for (int64_t head = 0; head < 2; ++head) {
    const auto row = inputs.q.begin() + ((head + 1) * kRows - 1) * kDim;
    last.q.insert(last.q.end(), row, row + kDim);
  }
  const auto alone = run_cpu_kernel(lowest(), problem, one, last);
  ASSERT_TRUE(many.ok() && alone.ok()) << many.status().to_string();
  for (int64_t head = 0; head < 2; ++head) {
    const auto row = many->o.begin() + ((head + 1) * kRows - 1) * kDim;
    EXPECT_EQ(num_different({row, row + kDim},
                            {alone->o.begin() + head * kDim, alone->o.begin() + (head + 1) * kDim}),
              0u);
  }
}

TEST(CpuScore, AnyNumberOfThreadsGivesTheSameBits) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = scored("phi=softplus,normalizer=sum", 100, 24, 24);
  const Sizes sizes = sizes_with(1, 3, 1, 130, 290);
  const CpuInputs inputs = inputs_of(problem, sizes);
  const auto one = run_cpu_training(lowest(), problem, sizes, inputs);
  ASSERT_TRUE(one.ok()) << one.status().to_string();
  for (const int threads : {2, 3, 4, 5, 6, 7, 8}) {
    const auto many = run_cpu_training(lowest(), problem, sizes, inputs, {.threads = threads});
    ASSERT_TRUE(many.ok()) << many.status().to_string();
    EXPECT_EQ(one->o, many->o) << threads << " threads";
    EXPECT_EQ(one->dq, many->dq) << threads << " threads";
    EXPECT_EQ(one->dk, many->dk) << threads << " threads";
    EXPECT_EQ(one->dv, many->dv) << threads << " threads";
  }
}

// Activations have the same bits whether they are kept or computed again.
TEST(CpuScore, KeptOrComputedAgainIsTheSame) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = scored("phi=gelu,normalizer=sum_abs", 7, 16, 16);
  const Sizes sizes = sizes_with(1, 1, 1, 9, 700);
  CpuRun kept, again;
  kept.schedule = again.schedule = default_schedule(problem, *target_from_name(lowest()));
  again.schedule->cpu.kept_keys = 256;
  const auto a = run_cpu_kernel(lowest(), problem, sizes, inputs_of(problem, sizes), kept);
  const auto b = run_cpu_kernel(lowest(), problem, sizes, inputs_of(problem, sizes), again);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->o, b->o);
  EXPECT_EQ(a->stats, b->stats);
}

}  // namespace
}  // namespace lssar
