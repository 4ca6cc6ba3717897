// The definition of LSSA, LSSAR and their family (ScoreFunction) in float64, with its gradients:
// the truth of tests and of `lssar verify`. Written for reading: formulas and names as in
// docs/math.md, quadratic in time, one row of scores in memory. Spread over the cores by (batch, kv
// head); results do not depend on how many there are. Any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// All tensors are contiguous [batch, heads, length, dim].
struct ReferenceInputs {
  std::vector<double> q, k, v;
  std::vector<double> grad_o;     // empty: forward only
  std::vector<double> sink = {};  // [heads]: the logits of score.sink; else empty
};

struct ReferenceOutputs {
  std::vector<double> o;
  std::vector<double> dq, dk, dv;  // empty without grad_o
  std::vector<double> dsink;       // [heads]; empty without grad_o or sink
  // Norms of the gradients computed with absolute values and |D| + |delta| for D - delta, before
  // the query heads of a kv head are added up: what the floor of the error rule is taken from
  // (error_floor of numerics.h; rows of two or three keys cancel completely).
  double floor_norm_dq = 0, floor_norm_dk = 0, floor_norm_dsink = 0;
  // Norm of the terms that dsink sums, one of every row: rows err independently, and may cancel.
  double row_norm_dsink = 0;
  // Norms of what an ideal kernel of the problem's dtype is off by: one with no roundings but those
  // that docs/accuracy.md names. 0 but for LSSA and LSSAR.
  double ideal_error_o = 0, ideal_error_dq = 0, ideal_error_dk = 0, ideal_error_dv = 0;
};

// Errors: those of validate(problem); kInvalidArgument where the sizes of the inputs do
// not fit the problem and `sizes`. `scores_done`, if not null, counts up to
// reference_scores() meanwhile, so that a caller can show progress.
Result<ReferenceOutputs> reference_attention(const Problem& problem, const Sizes& sizes,
                                             const ReferenceInputs& inputs,
                                             std::atomic<int64_t>* scores_done = nullptr);

// Pairs of a query and a key that it sees: what the time of the reference goes with.
int64_t reference_scores(const Problem& problem, const Sizes& sizes);

}  // namespace lssar
