// The gradient of queries:
//
//   dq_i = a_i - q^_i (q^_i a_i),   a_i = sum_j dS''_ij k_j
//
// A block has kGradRows query rows of one head and walks over the keys that these see.
#pragma once

#include "templates/cpu/gradient_tile.h"

namespace lssar_device {

template <class Config>
struct DqScratch {
  GradientTile<Config> tile;
  alignas(64) float sums[Config::kGradRows * Config::kHeadDimPadded];
};

// How a tile's rows walk over the tiles of keys within windows.
template <class Config>
LSSAR_HOST KeyWalk<Config, Config::kGradKeys, Config::kGradKeys> tile_walk(
    const AttentionParams& params, const RowPlace& place) {
  return {params, place, Config::kGradRows};
}

template <class Config>
LSSAR_HOST void backward_dq(const AttentionParams& params, u32 block, void* memory) {
  using Element = typename Config::Element;
  DqScratch<Config>& scratch = *(DqScratch<Config>*)memory;
  const i64 queries = seq_q<Config>(params);
  const RowPlace place = query_place<Config, Config::kGradRows>(params, block);
  const i64 left = queries - place.first_row;
  const int num_rows = left < Config::kGradRows ? (int)left : Config::kGradRows;
  for (int i = 0; i < Config::kGradRows * Config::kHeadDimPadded; ++i) scratch.sums[i] = 0.0f;

  const i64 visible = Config::kHasWindow
                          ? seen_window<Config>(params, place.first_row + num_rows - 1).end
                          : visible_keys<Config>(params, place.first_row + num_rows - 1);
  for (i64 key = Config::kHasWindow ? tile_walk<Config>(params, place).first() : 0; key < visible;
       key += Config::kHasWindow ? tile_walk<Config>(params, place).step(key) : Config::kGradKeys) {
    fill_tile<Config>(params, place, num_rows, key, scratch.tile);
    const Element* keys = row_pointer<const Element>(params.k, place.batch, place.kv_head, key);
    for (int group = 0; group < num_rows; group += Config::kRows)
      add_keys<Config>(params, place.first_row + group, key,
                       scratch.tile.gradients + group * Config::kGradKeys, keys,
                       scratch.sums + group * Config::kHeadDimPadded);
  }
  for (int r = 0; r < num_rows; ++r)
    store_projected<Config>(
        row_pointer<const Element>(params.q, place.batch, place.head, place.first_row + r),
        scratch.sums + r * Config::kHeadDimPadded,
        visible_keys<Config>(params, place.first_row + r) != 0,
        row_pointer<Element>(params.grad_q, place.batch, place.head, place.first_row + r));
}

}  // namespace lssar_device
