#include "autotune/problem_figures.h"

#include "codegen/kernel.h"
#include "codegen/power_chain.h"

namespace lssar {
namespace {

double multiplications_of(int power) {
  return power < 1 ? 0 : static_cast<double>(shortest_power_chain(power).size());
}

}  // namespace

ProblemFigures::ProblemFigures(const Problem& problem, const Sizes& sizes)
    : problem_(problem),
      sizes_(sizes),
      multiplications_{multiplications_of(problem.p), multiplications_of(problem.p - 1)} {}

TileCount ProblemFigures::query_tiles(int rows, int cols) {
  return query_tiles_.get({rows, cols},
                          [&] { return lssar::query_tiles(problem_, sizes_, rows, cols); });
}

TileCount ProblemFigures::packed_query_tiles(int packed_rows, int rows, int cols) {
  return packed_query_tiles_.get({packed_rows, rows, cols}, [&] {
    return lssar::packed_query_tiles(problem_, sizes_, packed_rows, rows, cols);
  });
}

TileCount ProblemFigures::key_tiles(int rows, int cols) {
  return key_tiles_.get({rows, cols},
                        [&] { return lssar::key_tiles(problem_, sizes_, rows, cols); });
}

EvaluatorMix ProblemFigures::evaluator_mix(const Schedule& schedule) {
  const std::array<int, 3> key = {static_cast<int>(schedule.variant),
                                  static_cast<int>(schedule.hopper.evaluator),
                                  int{sums_x(problem_, schedule)}};
  return mixes_.get(key, [&] { return lssar::evaluator_mix(problem_, sizes_, schedule); });
}

}  // namespace lssar
