#include "autotune/model/problem_figures.h"

#include "codegen/pass_needs.h"
#include "codegen/sizes.h"
#include "codegen/source/power_chain.h"

namespace lssar {
namespace {

double multiplications_of(int power) {
  return power < 1 ? 0 : static_cast<double>(power_chain(power).size());
}

// Rows and columns are fewer than 2^20, because a tile is in shared memory.
uint64_t key_of(int a, int b, int c = 0) {
  constexpr int kBits = 20;
  return (uint64_t(a) << kBits | uint64_t(b)) << kBits | uint64_t(c);
}

}  // namespace

ProblemFigures::ProblemFigures(const Problem& problem, const Sizes& sizes)
    : problem_(problem),
      sizes_(sizes),
      multiplications_{multiplications_of(problem.p), multiplications_of(problem.p - 1)} {
  if (is_general(problem)) functions_ = function_costs(problem);
}

TileCount ProblemFigures::query_tiles(int rows, int cols) {
  return query_tiles_.get(key_of(rows, cols),
                          [&] { return lssar::query_tiles(problem_, sizes_, rows, cols); });
}

TileCount ProblemFigures::packed_query_tiles(int packed_rows, int rows, int cols) {
  return packed_query_tiles_.get(key_of(packed_rows, rows, cols), [&] {
    return lssar::packed_query_tiles(problem_, sizes_, packed_rows, rows, cols);
  });
}

TileCount ProblemFigures::key_tiles(int rows, int cols) {
  return key_tiles_.get(key_of(rows, cols),
                        [&] { return lssar::key_tiles(problem_, sizes_, rows, cols); });
}

EvaluatorMix ProblemFigures::evaluator_mix(const Schedule& schedule) {
  const uint64_t key =
      key_of(static_cast<int>(schedule.variant), static_cast<int>(schedule.hopper.evaluator),
             int{sums_x(problem_, schedule)});
  return mixes_.get(key, [&] { return lssar::evaluator_mix(problem_, sizes_, schedule); });
}

}  // namespace lssar
