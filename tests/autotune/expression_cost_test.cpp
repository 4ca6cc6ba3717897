// The cost model's counts of score functions beside the machine code of their kernels.
#include "autotune/model/expression_cost.h"

#include <gtest/gtest.h>

#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"
#include "score/parse.h"
#include "score/score_text.h"

namespace lssar {
namespace {

// Slots of one iteration of the loop that multiplies values, beside tensor cores and special
// functions, of the default forward for sm_90a in bf16, not causal. To make one again:
//   lssar emit --target sm_90a --pass forward --head-dim D -p P --score TEXT > k.cu
//   nvcc -std=c++17 -cubin -arch=sm_90a k.cu -o k.cubin         (ptxas 13.0)
//   tools/sass_loops.py k.cubin
// `every` counts what no branch skips. `most` counts all branches of functions that have several.
// The same loop with phi = x (the mask) is subtracted: 131 instructions with 96 keys, 173 with 128.
struct Fact {
  const char* score;
  int p;
  int dim, cols;
  int every, most;
};
constexpr const char* kPlain = "scale=inv_sqrt_dim,qk_norm=false,";
const Fact kFacts[] = {
    {"phi=exp(x),normalizer=sum", 0, 64, 128, 517, 517},
    {"phi=exp(x),normalizer=sum", 0, 128, 96, 463, 463},
    {"phi=exp(x),normalizer=sum", 0, 128, 128, 560, 560},
    {"phi=exp(x),normalizer=sum", 0, 128, 176, 698, 698},
    {"phi=exp(x),normalizer=sum", 0, 256, 80, 498, 498},
    {"phi=relu(x),normalizer=sum_abs", 0, 64, 128, 495, 495},
    {"phi=relu(x),normalizer=sum_abs", 0, 128, 96, 401, 401},
    {"phi=relu(x)^2 + 0.01*x,normalizer=sum_abs", 0, 128, 96, 497, 497},
    {"phi=sigmoid(x),normalizer=none,bias=neg_log_length", 0, 128, 96, 702, 1038},
    {"phi=gelu,normalizer=sum_abs", 0, 128, 96, 739, 3093},
    {"phi=mish,normalizer=sum_abs", 0, 128, 96, 1219, 2517},
    {"phi=exp(tanh(x)),normalizer=sum", 0, 128, 96, 572, 1870},
    {"phi=exp(x),normalizer=sum", 15, 128, 96, 612, 612},
    {"phi=exp(x),normalizer=sum", 15, 64, 128, 786, 786},
    {"phi=exp(x),normalizer=sum,psi=x - b,psi_normalizer=sum_abs", 0, 128, 96, 405, 405},
    {"phi=softplus(x),normalizer=sum", 256, 128, 96, 1666, 1666},
};

Problem problem_of(const Fact& fact) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = fact.dim;
  problem.p = fact.p;
  const auto score = parse_score(std::string(kPlain) + fact.score);
  EXPECT_TRUE(score.ok()) << score.status().message();
  if (score.ok()) problem.score = *score;
  return problem;
}

double counted_slots(const Fact& fact) {
  const Problem problem = problem_of(fact);
  const Target target = *target_from_name("sm_90a");
  const Sizes sizes = {1, 1, 1, 128, fact.cols};  // one tile
  Schedule schedule = default_schedule(problem, target);
  schedule.forward = {128, fact.cols, 4, 1};
  ProblemFigures figures(problem, sizes);
  PassWork work = work_of(problem, sizes, schedule, target, *gpu_model("sm_90a"), figures);
  // Slots of one of the 256 threads that compute.
  return work.kernels[0].phases.back().amount[static_cast<size_t>(Resource::kIssue)] / 256;
}

TEST(ExpressionCost, CountsWhatTheMachineCodeHas) {
  constexpr double kWithin = 0.04;
  for (const Fact& fact : kFacts) {
    SCOPED_TRACE(std::string(fact.score) + " d " + std::to_string(fact.dim));
    const double counted = counted_slots(fact);
    EXPECT_GT(counted, (1 - kWithin) * fact.every);
    EXPECT_LT(counted, (1 + kWithin) * fact.most);
  }
}

ScoreCost cost(const char* text, bool is_precise = false) {
  const Expression both[] = {*parse_expression(text, {Variable::kX})};
  return cost_of(Program(both), is_precise);
}

TEST(ExpressionCost, SumsTakeProductsIn) {
  EXPECT_EQ(cost("x").slots, 0);
  EXPECT_EQ(cost("x + 1").slots, 1);
  EXPECT_EQ(cost("2 * x + 1").slots, 1);
  EXPECT_EQ(cost("relu(x)").slots, 1);
  EXPECT_EQ(cost("-relu(x)").slots, 1);
  EXPECT_EQ(cost("x^3").slots, 2);
  EXPECT_EQ(cost("x^64").slots, 6);
}

TEST(ExpressionCost, FunctionsHaveSpecialOnes) {
  EXPECT_EQ(cost("exp(x)").special, 1);
  EXPECT_EQ(cost("tanh(x)").special, 2);
  EXPECT_EQ(cost("x^3").special, 0);
  EXPECT_GT(cost("exp(x)", true).slots, cost("exp(x)").slots);
  EXPECT_LT(cost("x / (x^2 + 1)").slots, cost("1 / (x^2 + 1) + x").slots + 1);
}

// A derivative costs something, except that of an exponential, which is the exponential itself.
TEST(ExpressionCost, DerivativesAreCounted) {
  Problem problem = problem_of(kFacts[9]);
  const FunctionCosts gelu = function_costs(problem);
  EXPECT_GT(gelu.phi_and_slope.slots, gelu.phi.slots);
  EXPECT_GT(gelu.phi_and_slope.special, gelu.phi.special);
  const FunctionCosts softmax = function_costs(problem_of(kFacts[0]));
  EXPECT_EQ(softmax.phi_and_slope.slots, 0);
  EXPECT_EQ(softmax.phi_and_slope.special, 1);
}

// Softmax has one pass, the re-weighted one two.
TEST(ExpressionCost, TheForwardHasThePassesOfTheFunction) {
  const auto phases = [](const Fact& fact) {
    const Problem problem = problem_of(fact);
    const Target target = *target_from_name("sm_90a");
    const Sizes sizes = {4, 16, 16, 4096, 4096};
    ProblemFigures figures(problem, sizes);
    return work_of(problem, sizes, default_schedule(problem, target), target, *gpu_model("sm_90a"),
                   figures)
        .kernels[0]
        .phases.size();
  };
  EXPECT_EQ(phases(kFacts[1]), 1u);
  EXPECT_EQ(phases(kFacts[12]), 2u);
}

}  // namespace
}  // namespace lssar
