// Keys as scaled unit vectors in fp16 (tile/unit_rows.cuh), read by kernels whose norms are in
// their operands: 2^kUnitKeyExponent k̂_j; zeros where |k_j| <= 1e-12, NaN where k_j is not finite.
#pragma once

#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/tickets.cuh"
#include "templates/tile/unit_rows.cuh"

namespace lssar_device {

template <class Config>
LSSAR_DEVICE void unit_keys(const AttentionParams& p) {
  using Element = typename Config::Element;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  const i64 keys = seq_k<Config>(p);
  const BlockPlace place = block_place(ceil_div(keys, kRowsPerBlock), p.kv_heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  reset_tickets<Config>(p);
  // Every lane takes part in the exchanges of its row group; rows past the end repeat the last one.
  const Element* key =
      row_pointer<const Element>(p.k, place.batch, place.head, minimum(row, keys - 1));
  const float scale = row_inverse_norm<Config::kHeadDim, Config::kIsAligned>(key) * kUnitKeyScale;
  if (row >= keys) return;
  const i64 slice = i64{place.batch} * p.kv_heads + place.head;
  Fp16* out = static_cast<Fp16*>(p.unit_keys) + (slice * keys + row) * Config::kHeadDim;
#pragma unroll
  for (int col = 0; col < Config::kHeadDim; col += kRowGroupThreads * kChunkElems) {
    const int at = col + row_group_lane() * kChunkElems;
    if (at >= Config::kHeadDim) continue;
    float values[kChunkElems];
    load_chunk<Config::kIsAligned>(values, key + at);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) values[i] *= scale;
    store_chunk<true>(out + at, values);
  }
}

}  // namespace lssar_device
