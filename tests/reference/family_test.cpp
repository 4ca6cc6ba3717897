// Score functions beside LSSAR's: the reference beside results that were computed independently,
// and its gradients beside finite differences of random expressions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "reference/error_rule.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"
#include "score/parse.h"
#include "score/score_text.h"
#include "tests/golden/golden_case.h"
#include "tests/score/random_expression.h"

namespace lssar {
namespace {

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

double l2(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

class FamilyReference : public testing::TestWithParam<std::string> {};

// Golden results are stored as float32, so the tolerance is the rounding of float32. Where
// gradients cancel, an absolute tolerance is added.
TEST_P(FamilyReference, IsTheGoldenResult) {
  const auto golden = load_golden_case(GetParam(), golden_family_folder());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto outputs = reference_attention(
      golden->problem, golden->sizes,
      {widened(golden->q), widened(golden->k), widened(golden->v), widened(golden->grad_o)});
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const auto check = [](const char* name, const std::vector<double>& expected,
                        const std::vector<double>& got) {
    ASSERT_EQ(expected.size(), got.size()) << name;
    std::vector<double> error(expected);
    for (size_t i = 0; i < error.size(); ++i) error[i] -= got[i];
    EXPECT_LE(l2(error), 2e-7 * l2(expected)) << name;
    EXPECT_GT(l2(expected), 0) << name;
  };
  check("o", golden->o, outputs->o);
  check("dq", golden->dq, outputs->dq);
  check("dk", golden->dk, outputs->dk);
  check("dv", golden->dv, outputs->dv);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyReference,
                         testing::ValuesIn(golden_case_names(golden_family_folder()).value()),
                         [](const auto& p) { return p.param; });

// Gradients beside finite differences, with two sinks and two slopes where the score has them.
void expect_finite_differences(const char* text, int p) {
  Problem problem;
  problem.score = *parse_score(text);
  problem.p = p;
  problem.dtype = DType::kFp32;
  problem.head_dim = problem.head_dim_v = 8;
  problem.causal = true;
  const Sizes sizes{2, 2, 1, 9, 8};  // the first row sees no key
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 3);
  ReferenceInputs inputs{widened(random.q), widened(random.k), widened(random.v),
                         widened(random.grad_o)};
  if (problem.score.sink != Sink::kNone) inputs.sink = {-1.5, 0.5};
  if (problem.score.alibi != Alibi::kNone) inputs.alibi_slopes = {0.3, -0.2};
  const auto outputs = reference_attention(problem, sizes, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const auto loss = [&] {
    ReferenceInputs forward = inputs;
    forward.grad_o.clear();
    const std::vector<double> o = reference_attention(problem, sizes, forward)->o;
    return std::inner_product(o.begin(), o.end(), inputs.grad_o.begin(), 0.0);
  };
  const auto check = [&](std::vector<double>& input, const std::vector<double>& gradient) {
    constexpr double kStep = 1e-5;
    std::vector<double> error(gradient);
    ASSERT_EQ(input.size(), gradient.size()) << text;
    for (size_t i = 0; i < input.size(); ++i) {
      const double value = input[i];
      input[i] = value + kStep;
      const double above = loss();
      input[i] = value - kStep;
      error[i] -= (above - loss()) / (2 * kStep);
      input[i] = value;
    }
    EXPECT_GT(l2(gradient), 1e-3) << text;
    EXPECT_LE(l2(error), 1e-6 * l2(gradient)) << text;
  };
  if (!inputs.sink.empty()) check(inputs.sink, outputs->dsink);
  check(inputs.q, outputs->dq);
  check(inputs.k, outputs->dk);
}

TEST(SinkReference, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [text, p] : {std::pair{"softmax,sink=per_head", 0},
                                {"softmax,sink=per_head", 3},
                                {"lssar,phi=exp,bias=neg_log_length,sink=per_head", 0},
                                {"softmax,sink=per_head,psi=x^2-b,psi_normalizer=sum_abs", 0},
                                {"softmax,sink=per_head,psi=(x-b)/N", 0}})
    expect_finite_differences(text, p);
}

TEST(ChangedScoresReference, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [text, p] : {std::pair{"softmax,soft_cap=0.8", 0},
                                {"softmax,alibi=per_head", 0},
                                {"softmax,soft_cap=2,alibi=per_head,sink=per_head", 0},
                                {"lssar,soft_cap=1.5,alibi=per_head", 3},
                                {"sigmoid,soft_cap=0.5,alibi=per_head", 0},
                                {"softmax,soft_cap=1,psi=(x-b)/N", 0}})
    expect_finite_differences(text, p);
}

// From the formula: queries stand at the last positions.
TEST(ChangedScoresReference, AreTheFormula) {
  Problem problem;
  problem.score = *parse_score("softmax,soft_cap=1.5,alibi=per_head,scale=0.5");
  problem.p = 0;
  problem.head_dim = problem.head_dim_v = 8;
  constexpr int kQueries = 2, kKeys = 4, kDim = 8;
  const Sizes sizes{1, 1, 1, kQueries, kKeys};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 4);
  ReferenceInputs inputs{widened(random.q), widened(random.k), widened(random.v), {}};
  inputs.alibi_slopes = {0.4};
  const auto outputs = reference_attention(problem, sizes, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  for (int i = 0; i < kQueries; ++i) {
    double sum = 0, o[kDim] = {};
    for (int j = 0; j < kKeys; ++j) {
      const double product =
          std::inner_product(inputs.q.begin() + i * kDim, inputs.q.begin() + (i + 1) * kDim,
                             inputs.k.begin() + j * kDim, 0.0);
      const double s = 1.5 * std::tanh(0.5 * product / 1.5) - 0.4 * std::abs(i + 2 - j);
      sum += std::exp(s);
      for (int c = 0; c < kDim; ++c) o[c] += std::exp(s) * inputs.v[j * kDim + c];
    }
    for (int c = 0; c < kDim; ++c) EXPECT_NEAR(outputs->o[i * kDim + c], o[c] / sum, 1e-12);
  }
}

TEST(ChangedScoresReference, RefusesAnotherNumberOfSlopes) {
  Problem problem;
  problem.score = *parse_score("softmax,alibi=per_head");
  problem.p = 0;
  const auto outputs = reference_attention(problem, Sizes{1, 2, 1, 0, 0}, {});
  EXPECT_EQ(outputs.status().message(), "alibi_slopes has 0 elements: allowed are 1 x 2 x 1 x 1");
}

TEST(SinkReference, RefusesAnotherNumberOfSinks) {
  Problem problem;
  problem.score = *parse_score("softmax,sink=per_head");
  problem.p = 0;
  const Sizes sizes{1, 2, 1, 0, 0};
  const auto outputs = reference_attention(problem, sizes, {{}, {}, {}, {}, {1.0}});
  EXPECT_EQ(outputs.status().message(), "sink has 1 elements: allowed are 1 x 2 x 1 x 1");
}

}  // namespace
}  // namespace lssar
