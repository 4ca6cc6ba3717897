// Last step of a backward with sinks: each head's gradient, the sum of what its rows add to it.
//
//   dt_h = -sum_i exp(t_h - m_i) / r_i eps_i
//
// A block sums the rows of one head over the whole batch, in a fixed order. Each thread adds every
// kSinkThreads-th row to its own sum (Kahan's method). Then these are added up in pairs.
//
// Shared memory: one float for each warp.
#pragma once

#include "templates/ptx/index.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/sink.cuh"

namespace lssar_device {

LSSAR_DEVICE float warp_sum(float x) {
#pragma unroll
  for (int mask = 1; mask < kWarpThreads; mask *= 2) x += shuffle_xor(x, mask);
  return x;
}

template <class Config>
LSSAR_DEVICE void backward_sink(const AttentionParams& params) {
  const i64 queries = seq_q<Config>(params);
  const int head = static_cast<int>(block_index());
  float sum = 0.0f, lost = 0.0f;
  for (int batch = 0; batch < params.batch; ++batch) {
    const float* terms = params.sink_terms + (i64{batch} * params.heads + head) * queries;
    for (i64 row = thread_index(); row < queries; row += kSinkThreads) {
      const float term = terms[row] - lost;
      const float total = sum + term;
      lost = (total - sum) - term;
      sum = total;
    }
  }
  const u32 shared = dynamic_shared_address();
  sum = warp_sum(sum);
  if (lane_index() == 0) store_shared(shared + warp_index() * 4, sum);
  block_barrier();
  if (warp_index() != 0) return;
  float of_warp = 0.0f;
  if (lane_index() < kSinkThreads / kWarpThreads) load_shared(of_warp, shared + lane_index() * 4);
  sum = warp_sum(of_warp);
  if (lane_index() == 0) params.grad_sink[head] = sum;
}

}  // namespace lssar_device
