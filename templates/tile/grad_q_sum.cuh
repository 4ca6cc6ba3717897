// AttentionParams::grad_q_sum, float32 sums of dq: [batch, heads, head_dim / 8, seq_q, 8].
//
// Eight columns of all queries of a head lie together. A warp adds eight columns of 16 queries by
// TMA, or of eight queries by its lanes. So it touches one contiguous piece of memory instead of
// one per query.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
struct GradQSum {
  static constexpr int kCols = kGradQSumCols;
  static_assert(Config::kHeadDim % kCols == 0, "groups of columns are whole");

  // Floats from a column to the same column of the next group.
  static LSSAR_DEVICE i64 group_stride(const AttentionParams& params) {
    return seq_q<Config>(params) * kCols;
  }
  // `slice` is an index into [batch, heads].
  static LSSAR_DEVICE float* at(const AttentionParams& params, i64 slice, i64 query, int col) {
    return params.grad_q_sum + slice * seq_q<Config>(params) * Config::kHeadDim +
           col / kCols * group_stride(params) + query * kCols + col % kCols;
  }
};

}  // namespace lssar_device
