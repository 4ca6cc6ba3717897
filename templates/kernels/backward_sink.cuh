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
#include "templates/tile/fragment.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/sequences.cuh"
#include "templates/tile/sink.cuh"

namespace lssar_device {

// A thread's sum.
struct SinkSum {
  float sum = 0.0f, lost = 0.0f;

  LSSAR_DEVICE void add(const float* terms, i64 count) {
    for (i64 row = thread_index(); row < count; row += kSinkThreads) {
      const float term = terms[row] - lost;
      const float total = sum + term;
      lost = (total - sum) - term;
      sum = total;
    }
  }

  // All threads of the block call this.
  LSSAR_DEVICE void write(float* grad_sink) {
    const u32 shared = dynamic_shared_address();
    sum = warp_sum(sum);
    if (lane_index() == 0) store_shared(shared + warp_index() * 4, sum);
    block_barrier();
    if (warp_index() != 0) return;
    float of_warp = 0.0f;
    if (lane_index() < kSinkThreads / kWarpThreads) load_shared(of_warp, shared + lane_index() * 4);
    sum = warp_sum(of_warp);
    if (lane_index() == 0) *grad_sink = sum;
  }
};

template <class Config>
LSSAR_DEVICE void backward_sink(const AttentionParams& params) {
  const i64 queries = seq_q<Config>(params);
  const int head = static_cast<int>(block_index());
  SinkSum sum;
  for (int batch = 0; batch < params.batch; ++batch)
    sum.add(params.sink_terms + (i64{batch} * params.heads + head) * queries, queries);
  sum.write(params.grad_sink + head);
}

// The same of sequences that have lengths of their own.
LSSAR_DEVICE void backward_sink_of_sequences(const SequencesParams& all) {
  const AttentionParams& params = all.attention;
  const int head = static_cast<int>(block_index());
  const int count = *all.num_sequences;
  SinkSum sum;
  for (int b = 0; b < count; ++b) {
    const SequenceRows q = query_rows(all, b);
    sum.add(params.sink_terms + 2 * q.before * params.heads + head * q.length, q.length);
  }
  sum.write(params.grad_sink + head);
}

}  // namespace lssar_device
