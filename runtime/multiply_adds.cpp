#include "runtime/multiply_adds.h"

#include <algorithm>

namespace lssar {

double count_scores(const Problem& problem, const Sizes& sizes) {
  const auto queries = static_cast<double>(sizes.seq_q), keys = static_cast<double>(sizes.seq_k);
  double scores = queries * keys;
  if (problem.causal) {
    // The last row sees all keys, and each row before it one less.
    const double rows = std::min(queries, keys);
    scores = rows * (keys - rows + 1 + keys) / 2;
  }
  return static_cast<double>(sizes.batch) * static_cast<double>(sizes.heads) * scores;
}

double multiply_adds(const Problem& problem, const Sizes& sizes) {
  const double dim = problem.head_dim, dim_v = problem.head_dim_v;
  double of_score = dim + dim_v;
  if (problem.pass == Pass::kRowSums) of_score = dim;
  // The scores again, dq and dk; dv and the weights' gradients.
  if (problem.pass == Pass::kBackward) of_score = 3 * dim + 2 * dim_v;
  return count_scores(problem, sizes) * of_score;
}

}  // namespace lssar
