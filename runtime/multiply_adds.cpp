#include "runtime/multiply_adds.h"

#include <algorithm>

#include "codegen/visible_keys.h"

namespace lssar {

namespace {

// The mean number of keys that a row sees. Where there are more than kMostCounted rows, that many
// at equal distances are counted, because every execute asks.
double mean_visible_keys(const Problem& problem, const Sizes& sizes) {
  constexpr int64_t kMostCounted = 64;
  const int64_t rows = std::min(sizes.seq_q, kMostCounted);
  int64_t keys = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t row = rows == sizes.seq_q ? n : (2 * n + 1) * sizes.seq_q / (2 * rows);
    keys += visible_keys(problem, sizes.seq_q, sizes.seq_k, row).count();
  }
  return rows == 0 ? 0 : static_cast<double>(keys) / static_cast<double>(rows);
}

}  // namespace

double count_scores(const Problem& problem, const Sizes& sizes) {
  const auto queries = static_cast<double>(sizes.seq_q), keys = static_cast<double>(sizes.seq_k);
  double scores = queries * keys;
  if (has_window(problem)) {
    scores = queries * mean_visible_keys(problem, sizes);
  } else if (problem.causal) {
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
