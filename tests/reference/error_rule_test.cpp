#include "reference/error_rule.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "score/score_text.h"

namespace lssar {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Tolerance, OfEachDTypeAndTensor) {
  EXPECT_EQ(tolerance(DType::kBf16, OutputTensor::kO, 15), 3e-3);
  EXPECT_EQ(tolerance(DType::kBf16, OutputTensor::kDq, 15), 5e-3);
  EXPECT_EQ(tolerance(DType::kFp16, OutputTensor::kO, 15), 1e-3);
  EXPECT_EQ(tolerance(DType::kFp16, OutputTensor::kDk, 15), 2e-3);
  EXPECT_DOUBLE_EQ(tolerance(DType::kFp32, OutputTensor::kO, 3), 1e-5);
  EXPECT_DOUBLE_EQ(tolerance(DType::kFp32, OutputTensor::kO, 30), 2e-5);
  EXPECT_DOUBLE_EQ(tolerance(DType::kFp32, OutputTensor::kDq, 15), 2e-5);
}

TEST(Compare, MeasuresRelativeL2AndTheWorstElement) {
  const TensorError error =
      compare(std::vector<double>{3, 4}, std::vector<float>{3, 4.5f}, {0.2, 0, 0});
  EXPECT_DOUBLE_EQ(error.relative_l2, 0.1);
  EXPECT_DOUBLE_EQ(error.error_l2, 0.5);
  EXPECT_DOUBLE_EQ(error.worst_abs, 0.5);
  EXPECT_EQ(error.worst_index, 1u);
  EXPECT_TRUE(error.passed);
  EXPECT_EQ(error.to_string(),
            "relative L2 1.00e-01 (allowed 2.00e-01), worst 5.00e-01 at 1: passed");
}

TEST(Compare, FailsBeyondToleranceAndFloor) {
  const std::vector<double> reference{3, 4};
  const std::vector<float> actual{3, 4.5f};
  EXPECT_FALSE(compare(reference, actual, {0.09, 0, 0}).passed);
  EXPECT_TRUE(compare(reference, actual, {0.09, 0, 0.06}).passed);
  EXPECT_FALSE(compare(reference, actual, {0, 0, 0.49}).passed);
  EXPECT_TRUE(compare(reference, actual, {0, 0, 0.5}).passed);
}

TEST(Compare, NanOnEitherSideFails) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TensorError error =
      compare(std::vector<double>{1, 2, 3, 4}, std::vector<float>{9, nan, nan, 9}, {1e9, 0, 1e9});
  EXPECT_FALSE(error.passed);
  EXPECT_TRUE(std::isnan(error.worst_abs));
  EXPECT_EQ(error.worst_index, 1u);
  EXPECT_FALSE(compare(std::vector<double>{kNan}, std::vector<float>{1}, {1e9, 0, 1e9}).passed);
  EXPECT_FALSE(compare(std::vector<double>{kNan}, std::vector<float>{nan}, {1e9, 0, 1e9}).passed);
}

TEST(Compare, InfinityFails) {
  EXPECT_FALSE(compare(std::vector<double>{1}, std::vector<float>{INFINITY}, {1, 0, 1}).passed);
}

TEST(Compare, ZeroReferenceAllowsOnlyTheFloor) {
  EXPECT_TRUE(compare(std::vector<double>{0, 0}, std::vector<float>{0, 0}, {1e-3, 0, 0}).passed);
  EXPECT_EQ(compare(std::vector<double>{0, 0}, std::vector<float>{0, 0}, {1e-3, 0, 0}).relative_l2,
            0);
  EXPECT_FALSE(
      compare(std::vector<double>{0, 0}, std::vector<float>{0, 1e-9f}, {1e-3, 0, 0}).passed);
  EXPECT_TRUE(
      compare(std::vector<double>{0, 0}, std::vector<float>{0, 1e-9f}, {1e-3, 0, 1e-8}).passed);
}

TEST(Compare, DifferentSizesFail) {
  EXPECT_FALSE(compare(std::vector<double>{1}, std::vector<float>{1, 1}, {1, 0, 1}).passed);
  EXPECT_FALSE(compare(std::vector<double>{1}, std::vector<float>{}, {1, 0, 1}).passed);
}

TEST(Compare, NothingEqualsNothing) {
  EXPECT_TRUE(compare(std::vector<double>{}, std::vector<float>{}, {1e-3, 0, 0}).passed);
}

TEST(Compare, TheLeastCountsWhereTheTableAllowsLess) {
  const std::vector<double> reference{3, 4};
  const std::vector<float> actual{3, 4.5f};
  EXPECT_FALSE(compare(reference, actual, {0.09, 0.49, 0}).passed);
  const TensorError error = compare(reference, actual, {0.09, 0.5, 0});
  EXPECT_TRUE(error.passed);
  EXPECT_DOUBLE_EQ(error.tolerance, 0.1);
  EXPECT_DOUBLE_EQ(compare(reference, actual, {0.09, 0.5, 0.25}).tolerance, 0.15);
}

constexpr double kLargestFp16 = 65504;

TEST(Compare, AnInfinityForWhatTheTypeCannotHoldIsAnOverflow) {
  const std::vector<double> reference{1, -7e4, 65520};
  const float inf = std::numeric_limits<float>::infinity();
  const AllowedError allowed{1e-3, 0, 0, kLargestFp16};
  const TensorError error = compare(reference, std::vector<float>{1, -inf, inf}, allowed);
  EXPECT_FALSE(error.passed);
  EXPECT_TRUE(error.is_right());
  EXPECT_EQ(error.overflow, 7e4);
  EXPECT_EQ(error.relative_l2, 0);
}

TEST(Compare, AnOverflowHidesNothingElse) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> reference{1, 7e4};
  const AllowedError allowed{1e-3, 0, 0, kLargestFp16};
  for (const std::vector<float>& wrong :
       {std::vector<float>{2, inf}, {inf, inf}, {1, -inf}, {1, 3e4f}, {1, NAN}}) {
    const TensorError error = compare(reference, wrong, allowed);
    EXPECT_FALSE(error.is_right());
    EXPECT_EQ(error.overflow, 0);
  }
  EXPECT_FALSE(compare(reference, std::vector<float>{1, inf}, {1e-3, 0, 0}).is_right());
}

TEST(LargestNumber, RoundsToItself) {
  EXPECT_EQ(largest_number(DType::kFp16), kLargestFp16);
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32})
    EXPECT_EQ(round_to(dtype, largest_number(dtype)), largest_number(dtype));
}

// --- The ideal kernel ---

ReferenceOutputs reference_of(DType dtype, InputKind kind, int p) {
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.dtype = dtype;
  problem.p = p;
  problem.head_dim = problem.head_dim_v = 32;
  Sizes sizes;
  sizes.batch = sizes.heads = sizes.kv_heads = 1;
  sizes.seq_q = sizes.seq_k = 64;
  const RandomInputs in = random_inputs(problem, sizes, kind, 1);
  const auto widen = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  return reference_attention(problem, sizes,
                             {widen(in.q), widen(in.k), widen(in.v), widen(in.grad_o)})
      .value();
}

double l2(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// The typical errors of docs/accuracy.md.
TEST(IdealKernel, LosesARoundingsShareOfWellConditionedTensors) {
  for (const int p : {0, 1, 3, 15}) {
    SCOPED_TRACE(p);
    for (const auto& [dtype, unit] : {std::pair{DType::kBf16, 0x1p-8}, {DType::kFp16, 0x1p-11}}) {
      const ReferenceOutputs out = reference_of(dtype, InputKind::kGauss, p);
      for (const auto& [ideal, values] : {std::pair{out.ideal_error_o, &out.o},
                                          {out.ideal_error_dq, &out.dq},
                                          {out.ideal_error_dk, &out.dk},
                                          {out.ideal_error_dv, &out.dv}}) {
        EXPECT_GE(ideal, 0.2 * unit * l2(*values));
        EXPECT_LE(ideal, unit * l2(*values));
      }
    }
    const ReferenceOutputs out = reference_of(DType::kFp32, InputKind::kGauss, p);
    EXPECT_LE(out.ideal_error_o, 1e-6 * l2(out.o));
    EXPECT_LE(out.ideal_error_dq, 4e-6 * l2(out.dq));
  }
}

// Keys with a common part, which rounded dS' no longer cancels.
TEST(IdealKernel, LosesMoreWhereTermsCancel) {
  const ReferenceOutputs out = reference_of(DType::kBf16, InputKind::kShifted, 15);
  EXPECT_GE(out.ideal_error_dq, 5e-3 * l2(out.dq));
  EXPECT_LE(out.ideal_error_o, 3e-3 * l2(out.o));
  const ReferenceOutputs ties = reference_of(DType::kBf16, InputKind::kTies, 0);
  EXPECT_GE(ties.ideal_error_dq, 1e6 * l2(ties.dq));
}

// Rotated q and k are rounded, beside everything that the table counts, and that moves a sink's
// gradient too.
TEST(IdealKernel, RotationAddsToTheTableOfOtherScoreFunctions) {
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.p = 0;
  problem.head_dim = problem.head_dim_v = problem.rotary_dim = 32;
  problem.score = parse_score("softmax,sink=per_head").value();
  const Sizes sizes = {1, 1, 1, 16, 64};
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 1);
  const auto widen = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  const ReferenceOutputs out =
      reference_attention(problem, sizes,
                          {widen(in.q), widen(in.k), widen(in.v), widen(in.grad_o), widen(in.sink),
                           widen(in.rotary_cos), widen(in.rotary_sin)})
          .value();
  const auto square = [](double x) { return x * x; };
  const double least = allowed_error(problem, OutputTensor::kO, out).least;
  EXPECT_GT(out.ideal_error_o, 0);
  EXPECT_DOUBLE_EQ(square(least), square(3e-3 * l2(out.o)) + square(2 * out.ideal_error_o));
  const double of_sink = allowed_error(problem, OutputTensor::kDsink, out).least;
  EXPECT_GT(out.rotation_error_dsink, 0);
  EXPECT_DOUBLE_EQ(square(of_sink),
                   square(5e-3 * out.row_norm_dsink) + square(2 * out.rotation_error_dsink));
  problem.rotary_dim = 0;
  const ReferenceOutputs still =
      reference_attention(problem, sizes,
                          {widen(in.q), widen(in.k), widen(in.v), widen(in.grad_o), widen(in.sink)})
          .value();
  EXPECT_EQ(allowed_error(problem, OutputTensor::kO, still).least, 0);
}

// One row of other score functions, whose N P - b is far above rounding errors or cancels.
ReferenceOutputs one_row(const std::string& score, int p, double spread) {
  Problem problem;
  problem.pass = Pass::kForward;
  problem.dtype = DType::kFp32;
  problem.p = p;
  problem.head_dim = problem.head_dim_v = 8;
  problem.score = parse_score(score).value();
  const int64_t keys = 16;
  ReferenceInputs in;
  in.q.assign(8, 1.0);
  for (int64_t i = 0; i < keys * 8; ++i) {
    in.k.push_back(1 + spread * std::sin(static_cast<double>(i / 8)));
    in.v.push_back(std::cos(static_cast<double>(i)));
  }
  return reference_attention(problem, {1, 1, 1, 1, keys}, in).value();
}

TEST(IdealKernel, OtherScoreFunctionsLoseWhatTheirSecondStageCancels) {
  const std::string score = "phi=exp(x),normalizer=sum,scale=inv_sqrt_dim,qk_norm=false";
  EXPECT_EQ(one_row(score, 0, 1).ideal_error_o, 0);
  const ReferenceOutputs apart = one_row(score, 3, 1);
  EXPECT_GT(apart.ideal_error_o, 0x1p-26 * l2(apart.o));
  EXPECT_LT(apart.ideal_error_o, 1e-5 * l2(apart.o));
  const ReferenceOutputs alike = one_row(score, 3, 1e-3);
  EXPECT_GT(alike.ideal_error_o, 1e-4 * l2(alike.o));
  EXPECT_LT(alike.ideal_error_o, 1e-2 * l2(alike.o));
}

}  // namespace
}  // namespace lssar
