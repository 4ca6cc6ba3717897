// What the cost model counts for a score: products, special functions, instruction slots.
#include <array>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "tests/autotune/model/cost_case.h"

namespace lssar {
namespace {

// Softmax's forward by the same formula: two products, a special function and 4.5 slots per score.
double softmax_ms(const CostCase& c) {
  const double length = static_cast<double>(c.sizes.seq_q);
  const double scores = static_cast<double>(c.sizes.batch * c.sizes.heads) * length * length;
  const double clocks = c.gpu.clock_ghz * 1e6 * c.gpu.sustained * c.gpu.num_sms;
  return combine({scores * 4 * c.problem.head_dim / (clocks * c.gpu.tensor_flop),
                  scores / (clocks * c.gpu.special), scores * 4.5 / (clocks * c.gpu.issue_slots)});
}

// The time of the products, special functions and slots alone, as if tiles cost nothing else.
double three_resources_ms(const CostCase& c, const Schedule& schedule) {
  const double clocks = c.gpu.clock_ghz * 1e6 * c.gpu.sustained * c.gpu.num_sms;
  const PassWork work = c.work(schedule);
  double sum = 0;
  for (const Phase& phase : work.kernels[0].phases)
    sum += combine({phase.amount[0] / (clocks * c.gpu.tensor_flop),
                    phase.amount[1] / (clocks * c.gpu.special),
                    phase.amount[2] / (clocks * c.gpu.issue_slots)});
  return sum;
}

// Time relative to softmax's, computed by hand from slots per score, for two passes and tiles of
// any width: with the polynomial, and with the linear form.
TEST(CostModel, AgreesWithTheFormulaOfThreeResources) {
  struct Expected {
    int dim;
    double full, linear;
  };
  for (const Expected& expected :
       {Expected{64, 2.6, 1.9}, Expected{128, 2.0, 1.7}, Expected{256, 1.7, 1.6}}) {
    for (const int64_t length : {8192, 16384}) {
      const CostCase c = make_cost_case(Pass::kForward, expected.dim, length, "sm_90a", false);
      Schedule full = c.standard();
      full.hopper.evaluator = Evaluator::kFull;
      Schedule linear = c.standard();
      const double softmax = softmax_ms(c);
      EXPECT_NEAR(three_resources_ms(c, full) / softmax, expected.full, 0.15 * expected.full);
      EXPECT_NEAR(three_resources_ms(c, linear) / softmax, expected.linear, 0.15 * expected.linear);
      const double allowed = expected.dim == 256 ? 0.3 : 0.2;
      EXPECT_GE(c.cost(full).ms, three_resources_ms(c, full));
      EXPECT_NEAR(c.cost(full).ms / softmax, expected.full, allowed * expected.full);
      EXPECT_NEAR(c.cost(linear).ms / softmax, expected.linear, allowed * expected.linear);
    }
  }
}

// A pass on its own does its part of the forward's products and special functions, and no more.
TEST(CostModel, ThePassesOfARangeAreTheForwardsParts) {
  const auto amounts = [](Pass pass) {
    CostCase c = make_cost_case(pass, 128, 4096, "sm_80");
    const PassWork work = c.work(c.standard());
    std::array<double, 3> sums = {};
    for (const Phase& phase : work.kernels[0].phases)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += phase.amount[i];
    return std::pair(sums, work.kernels[0].phases.size());
  };
  const auto [sums, sum_phases] = amounts(Pass::kRowSums);
  const auto [weights, weight_phases] = amounts(Pass::kWeightedSum);
  EXPECT_EQ(sum_phases, 1u);
  EXPECT_EQ(weight_phases, 1u);
  EXPECT_NEAR(sums[0] / weights[0], 0.5, 0.02);  // q k; q k and the weights' product with v
  CostCase whole = make_cost_case(Pass::kForward, 128, 4096, "sm_80");
  CostCase part = make_cost_case(Pass::kRowSums, 128, 4096, "sm_80");
  EXPECT_LT(part.cost().ms, whole.cost().ms);
}

TEST(CostModel, CountsWhatAScoreCosts) {
  constexpr int kLength = 4096 * 15;  // tiles of 192, 96, 64 and 128 divide it
  const double scores = 64.0 * kLength * kLength;
  const auto amount = [&](Pass pass, DqMode mode, Resource resource) {
    const CostCase c = make_cost_case(pass, 64, kLength, "sm_90a", false);
    const Schedule schedule = default_schedule(c.problem, c.target, mode);
    double sum = 0;
    for (const KernelWork& kernel : c.work(schedule).kernels)
      for (const Phase& phase : kernel.phases) sum += phase.amount[static_cast<size_t>(resource)];
    return sum / scores;
  };
  // Products: 3; with X 4; backward 7 or 5.
  const double product = 2 * 64;
  EXPECT_NEAR(amount(Pass::kForward, DqMode::kSplit, Resource::kTensor) / product, 3, 0.02);
  EXPECT_NEAR(amount(Pass::kForwardTrain, DqMode::kSplit, Resource::kTensor) / product, 4, 0.05);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kSplit, Resource::kTensor) / product, 7, 0.06);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kAtomic, Resource::kTensor) / product, 5, 0.02);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kOrdered, Resource::kTensor) / product, 5, 0.02);
  EXPECT_NEAR(amount(Pass::kBackward, DqMode::kAtomic, Resource::kSpecial), 2, 0.02);
}

// One more kernel with two products and a special function per score. The forward for training has
// one product less.
TEST(CostModel, CountsEpsilonByPass) {
  const CostCase backward = make_cost_case(Pass::kBackward, 128, 8192, "sm_90a", false);
  CostCase forward = backward;
  forward.problem.pass = Pass::kForwardTrain;
  const double scores = 4.0 * 16 * 8192 * 8192;
  const auto flop = [&](const CostCase& c, EpsilonFrom epsilon) {
    const Schedule schedule = with_epsilon(c.standard(), epsilon, c.problem, c.target);
    double sum = 0;
    for (const KernelWork& kernel : c.work(schedule).kernels)
      for (const Phase& phase : kernel.phases)
        sum += phase.amount[static_cast<size_t>(Resource::kTensor)];
    return sum;
  };
  const double product = 2 * 128 * scores;
  const double more = flop(backward, EpsilonFrom::kPass) - flop(backward, EpsilonFrom::kX);
  const double less = flop(forward, EpsilonFrom::kX) - flop(forward, EpsilonFrom::kPass);
  // Tiles at the end of a length count as whole ones.
  EXPECT_NEAR(more / product, 2, 0.05);
  EXPECT_NEAR(less / product, 1, 0.02);

  const double saving =
      saving_x_ms(backward.problem, backward.sizes, backward.target, backward.gpu);
  EXPECT_GT(saving, 0.05 * forward.cost().ms);
  EXPECT_LT(saving, 0.5 * forward.cost().ms);
  EXPECT_EQ(saving_x_ms(forward.problem, forward.sizes, forward.target, forward.gpu), 0);
  Problem without = backward.problem;
  without.offset = 0;
  EXPECT_EQ(saving_x_ms(without, backward.sizes, backward.target, backward.gpu), 0);
}

// Slots per score of docs/instruction_slots.md, read from machine code.
TEST(CostModel, HasTheSlotsOfTheTable) {
  struct Row {
    int dim;
    double sum, weigh;  // pass 1; pass 2 by the polynomial
  };
  for (const Row& row : {Row{64, 7.9, 17.8}, Row{128, 8.1, 18.3}}) {
    const CostCase c = make_cost_case(Pass::kForward, row.dim, 4096 * 15, "sm_90a", false);
    Schedule schedule = c.standard();
    schedule.hopper.evaluator = Evaluator::kFull;
    const KernelWork work = c.work(schedule).kernels[0];
    const double length = static_cast<double>(c.sizes.seq_q);
    const double scores = 64 * length * length;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.phases[0].amount[slots] / scores, row.sum, 0.15);
    EXPECT_NEAR(work.phases[1].amount[slots] / scores, row.weigh, 0.15);
  }
  struct Backward {
    int dim;
    DType dtype;
    Evaluator evaluator;
    double dkdv, dq;
  };
  for (const Backward& row : {Backward{64, DType::kBf16, Evaluator::kFull, 23.1, 21.2},
                              Backward{128, DType::kBf16, Evaluator::kFull, 23.7, 21.8},
                              Backward{64, DType::kFp16, Evaluator::kFull, 23.7, 23.4},
                              Backward{128, DType::kFp16, Evaluator::kFull, 24.3, 24.0},
                              Backward{64, DType::kBf16, Evaluator::kLinear, 15.9, 14.3},
                              Backward{128, DType::kBf16, Evaluator::kLinear, 16.6, 14.8},
                              Backward{64, DType::kFp16, Evaluator::kLinear, 16.7, 16.5},
                              Backward{128, DType::kFp16, Evaluator::kLinear, 17.4, 17.1}}) {
    CostCase c = make_cost_case(Pass::kBackward, row.dim, 48 * 1280, "sm_90a", false);
    c.problem.dtype = row.dtype;
    Schedule schedule = c.standard();
    schedule.hopper.evaluator = row.evaluator;
    const PassWork work = c.work(schedule);
    const double length = static_cast<double>(c.sizes.seq_q);
    const double scores = 64 * length * length;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.kernels[0].phases[0].amount[slots] / scores, row.dkdv, 0.4);
    EXPECT_NEAR(work.kernels[1].phases[0].amount[slots] / scores, row.dq, 0.4);
  }
  for (const auto& [mode, dim, sums] :
       {std::tuple{DqMode::kAtomic, 64, 28.0}, std::tuple{DqMode::kAtomic, 128, 28.8},
        std::tuple{DqMode::kOrdered, 64, 31.1}, std::tuple{DqMode::kOrdered, 128, 32.6}}) {
    const CostCase c = make_cost_case(Pass::kBackward, dim, 48 * 1280, "sm_90a", false);
    Schedule schedule = default_schedule(c.problem, c.target, mode);
    schedule.hopper.evaluator = Evaluator::kFull;
    schedule.dkdv.block_cols = 64;
    const double length = static_cast<double>(c.sizes.seq_q);
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(c.work(schedule).kernels[0].phases[0].amount[slots] / (64 * length * length), sums,
                0.4);
  }
}

// Read from ptxas 13.0's machine code for sm_80, tiles of 64 x 64. Tensor instructions count as
// slots, and each copy of 16 bytes as 20.
TEST(CostModel, HasTheSlotsOfThePortableForward) {
  for (const auto& [dim, sum, weigh, copies] :
       {std::tuple{64, 10.6, 21.2, 2.5}, std::tuple{128, 12.25, 24.4, 5.0}}) {
    const CostCase c = make_cost_case(Pass::kForward, dim, 8192, "sm_80", false);
    Schedule schedule = c.standard();
    schedule.forward = {64, 64, 3, 1};
    const KernelWork work = c.work(schedule).kernels[0];
    const double scores = 64.0 * 8192 * 8192;
    const auto slots = static_cast<size_t>(Resource::kIssue);
    EXPECT_NEAR(work.phases[0].amount[slots] / scores / (sum + copies), 1, 0.05);
    EXPECT_NEAR(work.phases[1].amount[slots] / scores / (weigh + 2 * copies), 1, 0.05);
  }
}

TEST(CostModel, CheaperFormsOfSoftplusSaveInstructionsOfTheBackward) {
  const CostCase c = make_cost_case(Pass::kBackward, 128, 2048);
  Schedule full = c.standard();
  full.hopper.evaluator = Evaluator::kFull;
  EXPECT_GT(cost_term(c.cost(full), Resource::kIssue),
            1.15 * cost_term(c.cost(), Resource::kIssue));
}

}  // namespace
}  // namespace lssar
