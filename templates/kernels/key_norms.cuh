// k_inv_norm[b, g, j] = 1 / |k_j|, for all kernels with scores.
//
// Computed once per call.
//
// Eight lanes read a key; a block handles kThreads / 8 keys of [batch, kv_heads, seq_k].
#pragma once

#include "templates/tile/dq_turns.cuh"
#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/tickets.cuh"

namespace lssar_device {

template <class Config>
LSSAR_DEVICE void key_norms(const AttentionParams& params) {
  if constexpr (Config::kOrderedDq && !Config::kHasLengths) {
    if (block_index() == 0 && thread_index() == 0) DqTurns<Config>::clear_tickets(params);
  }
  using Element = typename Config::Element;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  const i64 keys = seq_k<Config>(params);
  const BlockPlace place = block_place<Config>(ceil_div(keys, kRowsPerBlock), params.kv_heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  if constexpr (Config::kTakesTickets) reset_tickets(params);
  // Every lane takes part in the exchange of its row group, so rows past the end read the last row.
  const i64 read_row = minimum(row, keys - 1);
  const Element* k = row_pointer<const Element>(params.k, place.batch, place.head, read_row);
  const float inverse =
      inverse_norm<Config>(row_square<Config::kHeadDim, Config::kIsAligned, Element>(k));
  if constexpr (Config::kHasLengths) {
    // Hopper kernels copy whole vectors of norms.
    if (row >= keys && row < key_norm_pitch<Config>(params) && row_group_lane() == 0)
      params.k_inv_norm[place.head * key_norm_pitch<Config>(params) + row] = 0.0f;
  }
  if (row < keys && row_group_lane() == 0)
    params.k_inv_norm[(i64{place.batch} * params.kv_heads + place.head) *
                          key_norm_pitch<Config>(params) +
                      row] = inverse;
}

}  // namespace lssar_device
