// Score functions beside LSSAR's: the reference beside results that were computed independently,
// and its gradients beside finite differences of random expressions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "reference/error_rule.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"
#include "score/parse.h"
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

}  // namespace
}  // namespace lssar
