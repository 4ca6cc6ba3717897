// Sums of dq within the kernel of dk and dv (dq_mode ordered). Blocks of keys add to a tile of
// kGradRows queries one after another, the first keys first, so that the bits do not depend on who
// computes what. A block of keys waits only for blocks that the device starts before it.
#pragma once

#include "templates/cpu/gradient_tile.h"

namespace lssar_device {

extern "C" int sched_yield();

// How many blocks of keys have added to the tile of queries that begins at `row`.
template <class Config>
LSSAR_HOST u32* turn_of(const AttentionParams& params, const RowPlace& place, i64 row) {
  const i64 tiles = (seq_q<Config>(params) + Config::kGradRows - 1) / Config::kGradRows;
  return params.dq_turns + (place.batch * params.heads + place.head) * tiles +
         row / Config::kGradRows;
}

template <class Config>
LSSAR_HOST float* query_sums(const AttentionParams& params, i64 flat) {
  return params.grad_q_sum + flat * Config::kHeadDimPadded;
}

// Before the first block of keys.
template <class Config>
LSSAR_HOST void clear_query_sums(const AttentionParams& params, const RowPlace& place, i64 row) {
  float* const sums = query_sums<Config>(params, flat_row<Config>(params, place, row));
  for (int d = 0; d < Config::kHeadDimPadded; ++d) sums[d] = 0.0f;
  if (row % Config::kGradRows == 0) *turn_of<Config>(params, place, row) = 0;
}

// The turn of a block of keys within windows: how many blocks before it have a key that one of the
// tile's rows sees. REQUIRES: it has one too.
template <class Config>
LSSAR_HOST u32 window_turn(const AttentionParams& params, i64 first_row, i64 first_key) {
  constexpr i64 kKeys = Config::kGradKeys;
  const VisibleKeys seen = seen_by_some<Config>(params, first_row, Config::kGradRows);
  const i64 block = first_key / kKeys, always = (seen.always + kKeys - 1) / kKeys;
  return (u32)(block < always ? block : always + block - most_of(seen.begin / kKeys, always));
}

// Waits until *turn is `mine`. After a while it yields the CPU: the thread that it waits for may
// need it.
LSSAR_HOST void wait_for_turn(const u32* turn, u32 mine) {
  constexpr int kSpins = 1000;  // some 10 us
  for (int spin = 0; __atomic_load_n(turn, __ATOMIC_ACQUIRE) != mine; ++spin) {
    __builtin_ia32_pause();
    if (spin >= kSpins) sched_yield();
  }
}

// Multiplies keys by the tile of `num_rows` rows from place.first_row on, into `sums`. When it is
// the turn of these keys, adds the result to the sums of all keys before them. Overwrites the
// gradients.
template <class Config>
LSSAR_HOST void add_query_gradients(const AttentionParams& params, const RowPlace& place,
                                    int num_rows, i64 first_key, float* gradients, float* sums) {
  using Element = typename Config::Element;
  constexpr int kPitch = Config::kHeadDimPadded;
  const Element* const keys =
      row_pointer<const Element>(params.k, place.batch, place.kv_head, first_key);
  for (int i = 0; i < Config::kGradRows * kPitch; ++i) sums[i] = 0.0f;
  for (int group = 0; group < num_rows; group += Config::kRows)
    add_keys<Config>(params, place.first_row + group, first_key,
                     gradients + group * Config::kGradKeys, keys, sums + group * kPitch);
  u32* const turn = turn_of<Config>(params, place, place.first_row);
  const u32 mine = Config::kHasWindow ? window_turn<Config>(params, place.first_row, first_key)
                                      : (u32)(first_key / Config::kGradKeys);
  wait_for_turn(turn, mine);
  float* const total = query_sums<Config>(params, flat_row<Config>(params, place, place.first_row));
  for (int i = 0; i < num_rows * kPitch; i += Config::kLanes)
    store<Config>(total + i, load<Config>(total + i) + load<Config>(sums + i));
  __atomic_store_n(turn, mine + 1, __ATOMIC_RELEASE);
}

// The last step: dq from the sums.
template <class Config>
LSSAR_HOST void backward_dq_finish(const AttentionParams& params, u32 block, void* /*scratch*/) {
  using Element = typename Config::Element;
  const i64 queries = seq_q<Config>(params);
  const RowPlace place = query_place<Config, Config::kConstantRows>(params, block);
  const i64 end = place.first_row + Config::kConstantRows;
  for (i64 row = place.first_row; row < end && row < queries; ++row)
    store_projected<Config>(row_pointer<const Element>(params.q, place.batch, place.head, row),
                            query_sums<Config>(params, flat_row<Config>(params, place, row)),
                            visible_keys<Config>(params, row) != 0,
                            row_pointer<Element>(params.grad_q, place.batch, place.head, row));
}

}  // namespace lssar_device
