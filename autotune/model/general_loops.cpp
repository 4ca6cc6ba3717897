#include "autotune/model/general_loops.h"

#include "codegen/pass_needs.h"

namespace lssar {
namespace {

// Slots per score besides the functions, read from machine code. They are for scaling products and
// loading norms (templates/tile/score_fragment.cuh), the shift, a sum's term, a maximum, rounding
// to 16 bits, the magnitudes of rounded weights, and the row constants that a gradient loads.
constexpr double kScale = 2.25, kShift = 1, kTerm = 1, kMaximum = 1, kRounding = 0.5;
constexpr double kMagnitudes = 0.5, kConstants = 1;
// For the distance from the largest activation and the base of the power (WeightScale).
constexpr double kWeightBase = 2;
// For a sign, and for clearing the gradient in rows that have none.
constexpr double kSign = 4, kNoGradient = 3.5;

// Slots per thread and tile: for a loop, for sums with a running maximum, for pass 1 and for the
// backward.
constexpr double kTile = 100, kRunningMaximum = 24, kSumTile = 60;
constexpr double kBackwardTile = 200;

bool sums_magnitudes(const WorkContext& c) {
  return c.problem.score.normalizer == Normalizer::kSumAbs && !exponential_of(c.problem);
}

// From products to activations.
double score_slots(const WorkContext& c) {
  return kScale + kShift + c.figures.functions().phi.slots;
}

// The slots and special functions that the second stage adds to a gradient's loop.
ScoreCost stage_cost(const WorkContext& c) {
  const FunctionCosts& functions = c.figures.functions();
  if (c.problem.p != 0) return {kWeightBase + 2 + c.figures.multiplications(c.problem.p - 1), 0};
  if (!c.problem.score.psi.expression) return {};
  ScoreCost cost = functions.psi_and_slope;
  cost.slots += 2;
  if (c.problem.score.psi_normalizer == PsiNormalizer::kSumAbs) cost.slots += kSign;
  return cost;
}

}  // namespace

GeneralLoop general_sum_loop(const WorkContext& c) {
  double slots = score_slots(c) + kTerm;
  const bool is_exponential = exponential_of(c.problem).has_value();
  if (is_exponential) {
    slots += kMaximum;
  } else if (c.problem.p != 0) {
    slots += 2 * kMaximum;  // one for each sign
  }
  return {{slots, kSumTile + (is_exponential ? kRunningMaximum : 0), 0},
          c.figures.functions().phi.special};
}

GeneralLoop general_weigh_loop(const WorkContext& c) {
  const FunctionCosts& functions = c.figures.functions();
  const Problem& problem = c.problem;
  const bool has_running_maximum = exponential_of(problem) && !has_pass_one(problem);
  double slots = score_slots(c), tile = kTile, special = functions.phi.special;
  if (problem.dtype != DType::kFp32) slots += kRounding;
  if (has_running_maximum) {
    slots += kMaximum;
    tile += kRunningMaximum;
  }
  if (has_running_maximum || scales_weights(problem)) tile += c.schedule.block_dv / 2.0;
  if (problem.p != 0) {
    slots += kWeightBase + c.figures.multiplications(problem.p);
  } else if (problem.score.psi.expression) {
    slots += functions.psi.slots;
    special += functions.psi.special;
    if (problem.score.psi_normalizer != PsiNormalizer::kNone) slots += kTerm;
    if (problem.score.psi_normalizer == PsiNormalizer::kSumAbs) slots += kMagnitudes;
  } else if (normalises_by_sum(c.problem.score)) {
    slots += kTerm;
    if (sums_magnitudes(c)) slots += kMagnitudes;
  }
  if (scales_weights(problem)) slots += kMaximum + 1;
  return {{slots, tile, 0}, special};
}

GeneralLoop general_dkdv_loop(const WorkContext& c, bool with_dk) {
  const FunctionCosts& functions = c.figures.functions();
  const ScoreCost& phi = with_dk ? functions.phi_and_slope : functions.phi;
  const ScoreCost stage = stage_cost(c);
  // Scores and the weight, then D's factor with epsilon and the slope.
  double slots = 2 + kShift + phi.slots + stage.slots + 1 + kRounding + kConstants + kNoGradient;
  if (with_dk) slots += 2 + kRounding + (sums_magnitudes(c) ? kSign : 0);
  return {{slots, kBackwardTile, 0}, phi.special + stage.special};
}

GeneralLoop general_dq_loop(const WorkContext& c) {
  const FunctionCosts& functions = c.figures.functions();
  const ScoreCost stage = stage_cost(c);
  const double slots = kScale + kShift + functions.phi_and_slope.slots + stage.slots + 2 +
                       kRounding + kNoGradient / 2 + (sums_magnitudes(c) ? kSign : 0);
  return {{slots, kBackwardTile, 0}, functions.phi_and_slope.special + stage.special};
}

GeneralLoop general_epsilon_loop(const WorkContext& c) {
  const ScoreCost stage = stage_cost(c);
  const double slots = score_slots(c) + stage.slots + kTerm + kNoGradient / 2;
  return {{slots, kBackwardTile, 0}, c.figures.functions().phi.special + stage.special};
}

}  // namespace lssar
