// The reference with rotary positions.
#include "reference/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/random_inputs.h"
#include "reference/reference.h"

namespace lssar {
namespace {

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Problem small_problem(int rotary_dim, bool interleaved) {
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.dtype = DType::kFp32;
  problem.head_dim = problem.head_dim_v = 8;
  problem.rotary_dim = rotary_dim;
  problem.rotary_interleaved = interleaved;
  problem.p = 3;
  problem.offset = 0;  // no weight jumps, so that differences approach derivatives
  return problem;
}

const Sizes kSizes = {1, 2, 1, 4, 7};

ReferenceInputs inputs_of(const Problem& problem) {
  const RandomInputs in = random_inputs(problem, kSizes, InputKind::kGauss, 7);
  return {widened(in.q),          widened(in.k),         widened(in.v), widened(in.grad_o), {},
          widened(in.rotary_cos), widened(in.rotary_sin)};
}

ReferenceOutputs run(const Problem& problem, const ReferenceInputs& inputs) {
  const auto outputs = reference_attention(problem, kSizes, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
  return outputs.ok() ? *outputs : ReferenceOutputs();
}

double loss(const Problem& problem, const ReferenceInputs& inputs) {
  const std::vector<double> o = run(problem, inputs).o;
  double sum = 0;
  for (size_t i = 0; i < o.size(); ++i) sum += o[i] * inputs.grad_o[i];
  return sum;
}

// Position 0 is not turned, position 1 by a quarter.
TEST(Rotary, TurnsPairsOfColumns) {
  const std::vector<double> cos = {1, 1, 0, 0}, sin = {0, 0, 1, 1};
  const std::vector<double> rows = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<double> x = rows;
  rotate_rows(small_problem(4, false), cos, sin, 2, 0, false, x);
  EXPECT_EQ(x, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, -3, -4, 1, 2, 5, 6, 7, 8}));
  rotate_rows(small_problem(4, false), cos, sin, 2, 0, true, x);
  EXPECT_EQ(x, rows);
  rotate_rows(small_problem(4, true), cos, sin, 1, 1, false, x);  // two slices of one row
  EXPECT_EQ(x, (std::vector<double>{-2, 1, -4, 3, 5, 6, 7, 8, -2, 1, -4, 3, 5, 6, 7, 8}));
}

TEST(Rotary, TablesHaveTheAnglesOfTheirBase) {
  const RotaryTables tables = rotary_tables(3, 4, 100.0);
  ASSERT_EQ(tables.cos.size(), 6u);
  EXPECT_EQ(tables.cos[0], 1.0f);
  EXPECT_FLOAT_EQ(tables.cos[4], std::cos(2.0f));
  EXPECT_FLOAT_EQ(tables.sin[5], std::sin(0.2f));
}

TEST(Rotary, OnlyDistancesCount) {
  const Problem problem = small_problem(8, false);
  ReferenceInputs inputs = inputs_of(problem);
  const std::vector<double> o = run(problem, inputs).o;
  const RotaryTables later = rotary_tables(kSizes.seq_k + 11, problem.rotary_dim);
  const auto skip = 11 * problem.rotary_dim / 2;
  inputs.rotary_cos = widened({later.cos.begin() + skip, later.cos.end()});
  inputs.rotary_sin = widened({later.sin.begin() + skip, later.sin.end()});
  const std::vector<double> moved = run(problem, inputs).o;
  for (size_t i = 0; i < o.size(); ++i) EXPECT_NEAR(o[i], moved[i], 1e-5) << i;
}

TEST(Rotary, GradientsAreDerivatives) {
  constexpr double kStep = 1e-5;
  for (const bool interleaved : {false, true}) {
    const Problem problem = small_problem(6, interleaved);
    ReferenceInputs inputs = inputs_of(problem);
    const ReferenceOutputs outputs = run(problem, inputs);
    const auto expect = [&](std::vector<double>& x, const std::vector<double>& gradient) {
      for (size_t i = 0; i < x.size(); ++i) {
        const double at = x[i];
        x[i] = at + kStep;
        const double above = loss(problem, inputs);
        x[i] = at - kStep;
        const double below = loss(problem, inputs);
        x[i] = at;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-6) << i;
      }
    };
    expect(inputs.q, outputs.dq);
    expect(inputs.k, outputs.dk);
  }
}

TEST(Rotary, TablesMustHaveEveryKey) {
  const Problem problem = small_problem(4, false);
  ReferenceInputs inputs = inputs_of(problem);
  inputs.rotary_cos.pop_back();
  EXPECT_EQ(reference_attention(problem, kSizes, inputs).status().message(),
            "rotary_cos has 13 elements: allowed are 1 x 1 x 7 x 2");
}

}  // namespace
}  // namespace lssar
