// Few queries: adds what the chunks of keys add to a row's output, in the order of the keys.
#pragma once

#include "templates/cpu/few_values.h"

namespace lssar_device {

// A block is a row of a head.
template <class Config>
LSSAR_HOST void few_outputs(const AttentionParams& params, u32 block, void* /*scratch*/) {
  const RowPlace place = query_place<Config, 1>(params, block);
  const FewSlice<Config> slice(params, place.batch * params.kv_heads + place.kv_head);
  const i64 row = (place.head - place.kv_head * slice.group) * slice.queries + place.first_row;
  RowState state = few_row<Config>(params, slice, row);
  state.weights = sum_of_chunks<Config>(slice.of_chunks(2, row), slice.chunks);
  alignas(64) float outputs[Config::kHeadDimVPadded] = {};
  for (i64 chunk = 0; chunk < slice.chunks; ++chunk) {
    const float* const from = slice.outputs(chunk, row);
    for (int d = 0; d < Config::kHeadDimVPadded; d += Config::kLanes)
      store<Config>(outputs + d, load<Config>(outputs + d) + load<Config>(from + d));
  }
  store_output<Config>(params, place, place.first_row, row_stats(state), outputs);
}

}  // namespace lssar_device
