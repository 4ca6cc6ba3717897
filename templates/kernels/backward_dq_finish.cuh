// Last step of a backward whose dk/dv kernel sums dq: dq_i = a_i - q̂_i (q̂_i a_i) from the sums
// a_i. Without norms dq_i = a_i.
//
// Eight lanes per row of [batch, heads, seq_q].
#pragma once

#include "templates/tile/grad_q_sum.cuh"
#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
LSSAR_DEVICE void backward_dq_finish(const AttentionParams& params) {
  using Element = typename Config::Element;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  constexpr int kChunks =
      (Config::kHeadDim + kRowGroupThreads * kChunkElems - 1) / (kRowGroupThreads * kChunkElems);
  const i64 queries = seq_q<Config>(params);
  const BlockPlace place = block_place<Config>(ceil_div(queries, kRowsPerBlock), params.heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  const i64 read_row = minimum(row, queries - 1);  // all lanes take part in the exchange below
  const i64 slice = i64{place.batch} * params.heads + place.head;
  const i64 flat_row = slice * queries + read_row;
  const Element* q = row_pointer<const Element>(params.q, place.batch, place.head, read_row);

  float a[kChunks][kChunkElems], x[kChunks][kChunkElems];
  float dot = 0.0f;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int at = (chunk * kRowGroupThreads + row_group_lane()) * kChunkElems;
    if (at >= Config::kHeadDim) continue;
    static_assert(kChunkElems == GradQSum<Config>::kCols, "a lane reads a group of columns");
    load_chunk<true>(a[chunk], GradQSum<Config>::at(params, slice, read_row, at));
    load_chunk<Config::kIsAligned>(x[chunk], q + at);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) dot = fma(a[chunk][i], x[chunk][i], dot);
  }
  const float inverse_norm = Config::kHasNorms ? params.q_inv_norm[flat_row] : 0.0f;
  dot = row_group_sum(dot) * inverse_norm * inverse_norm;
  if (row >= queries) return;
  Element* out = row_pointer<Element>(params.grad_q, place.batch, place.head, row);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int at = (chunk * kRowGroupThreads + row_group_lane()) * kChunkElems;
    if (at >= Config::kHeadDim) continue;
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) a[chunk][i] = fma(-dot, x[chunk][i], a[chunk][i]);
    store_chunk<Config::kIsAligned>(out + at, a[chunk]);
  }
}

}  // namespace lssar_device
