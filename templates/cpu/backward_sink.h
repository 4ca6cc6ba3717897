// The gradient of sinks: a block sums what all rows of a head add, of the whole batch, in order.
#pragma once

#include "templates/cpu/rows.h"

namespace lssar_device {

template <class Config>
LSSAR_HOST void backward_sink(const AttentionParams& params, u32 head, void* /*scratch*/) {
  const i64 queries = seq_q<Config>(params);
  double sum = 0.0;
  for (i64 batch = 0; batch < params.batch; ++batch) {
    const float* const terms = params.sink_terms + (batch * params.heads + head) * queries;
    for (i64 row = 0; row < queries; ++row) sum += terms[row];
  }
  params.grad_sink[head] = (float)sum;
}

}  // namespace lssar_device
