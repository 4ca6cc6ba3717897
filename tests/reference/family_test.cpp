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

// The results are stored as float32, which is what they may be off by; a floor beside it where
// gradients cancel.
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

// The sink's gradient, and the others beside a sink, beside finite differences.
TEST(SinkReference, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [text, p] : {std::pair{"softmax,sink=per_head", 0},
                                {"softmax,sink=per_head", 3},
                                {"lssar,phi=exp,bias=neg_log_length,sink=per_head", 0},
                                {"softmax,sink=per_head,psi=x^2-b,psi_normalizer=sum_abs", 0},
                                {"softmax,sink=per_head,psi=(x-b)/N", 0}}) {
    Problem problem;
    problem.score = *parse_score(text);
    problem.p = p;
    problem.dtype = DType::kFp32;
    problem.head_dim = problem.head_dim_v = 8;
    problem.causal = true;
    const Sizes sizes{2, 2, 1, 9, 8};  // the first row sees no key
    const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 3);
    ReferenceInputs inputs{widened(random.q),
                           widened(random.k),
                           widened(random.v),
                           widened(random.grad_o),
                           {-1.5, 0.5}};
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
    check(inputs.sink, outputs->dsink);
    check(inputs.q, outputs->dq);
    check(inputs.k, outputs->dk);
  }
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
