// The definition of LSSA and LSSAR in float64, with its gradients: the truth of tests and of
// `lssar verify`. Written for reading; quadratic in time, one row in memory.
#pragma once

#include <vector>

#include "base/status.h"
#include "codegen/kernel.h"
#include "codegen/problem.h"

namespace lssar {

// All tensors are contiguous [batch, heads, length, dim].
struct ReferenceInputs {
  std::vector<double> q, k, v;
  std::vector<double> grad_o;  // empty: forward only
};

struct ReferenceOutputs {
  std::vector<double> o;
  std::vector<double> dq, dk, dv;  // empty without grad_o
  // Norms of the gradients computed with absolute values and |D| + |delta| for D - delta: what the
  // floor of the error rule is taken from (rows of two or three keys cancel completely).
  double floor_norm_dq = 0, floor_norm_dk = 0;
};

// Errors: kInvalidArgument where the sizes of the inputs do not fit the problem and `sizes`.
Result<ReferenceOutputs> reference_attention(const Problem& problem, const Sizes& sizes,
                                             const ReferenceInputs& inputs);

}  // namespace lssar
