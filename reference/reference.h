// The definition of LSSA, LSSAR and their family (ScoreFunction) in float64, with its gradients.
// Tests and `lssar verify` compare with it. It is written to be read: formulas and names are those
// of docs/math.md, time is quadratic, and one row of scores is in memory. Cores share the work by
// (batch, kv head), and results do not depend on their number. Any thread may call it.
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
  std::vector<double> grad_o;     // empty for a forward
  std::vector<double> sink = {};  // [heads]: the logits of score.sink; empty without one
  // [seq_k, rotary_dim / 2]; empty without rotary positions
  std::vector<double> rotary_cos = {}, rotary_sin = {};
  std::vector<double> alibi_slopes = {};  // [heads], of score.alibi; empty without it
};

struct ReferenceOutputs {
  std::vector<double> o;
  std::vector<double> dq, dk, dv;  // empty without grad_o
  std::vector<double> dsink;       // [heads]; empty without grad_o or sink
  // Norms of the gradients as computed with absolute values, and with |D| + |delta| for D - delta,
  // before the query heads of a kv head are added up. error_floor (error_rule.h) needs them,
  // because rows of two or three keys cancel completely.
  double floor_norm_dq = 0, floor_norm_dk = 0, floor_norm_dsink = 0;
  // The norm over the rows of what each adds to dsink, computed from the magnitudes of the terms of
  // epsilon_i. Rows err independently, and each in proportion to these magnitudes.
  double row_norm_dsink = 0;
  // Norms of the error of an ideal kernel of the problem's dtype: one that rounds only where
  // docs/accuracy.md says that it must. For score functions other than LSSA and LSSAR it counts the
  // rounding of rotated q and k and, in fp32 with a second stage, of scores and activations.
  double ideal_error_o = 0, ideal_error_dq = 0, ideal_error_dk = 0, ideal_error_dv = 0;
  double rotation_error_dsink = 0;  // what that rounding does to dsink
};

// Errors: those of validate(problem); kInvalidArgument if the sizes of the inputs do not fit the
// problem and `sizes`. If `scores_done` is not null, it counts up to reference_scores() meanwhile,
// so that a caller can show progress.
Result<ReferenceOutputs> reference_attention(const Problem& problem, const Sizes& sizes,
                                             const ReferenceInputs& inputs,
                                             std::atomic<int64_t>* scores_done = nullptr);

// The number of pairs of a query and a key that it sees. The reference's time is proportional to
// it.
int64_t reference_scores(const Problem& problem, const Sizes& sizes);

}  // namespace lssar
