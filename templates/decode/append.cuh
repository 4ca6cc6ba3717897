// Writes new keys and values into caches: over the last rows of each sequence's k and v.
//
// Eight lanes copy a row of k_new and one of v_new. A block has kRowThreads / 8 rows of one head.
#pragma once

#include "templates/tile/row_group.cuh"
#include "templates/tile/sequences.cuh"

namespace lssar_device {

// Copies the bits of a row.
template <class Config, int kDim>
LSSAR_DEVICE void copy_row(typename Config::Element* to, const typename Config::Element* from) {
  constexpr int kElems =
      Config::kIsAligned ? 16 / static_cast<int>(sizeof(typename Config::Element)) : 1;
  for (int col = row_group_lane() * kElems; col < kDim; col += kRowGroupThreads * kElems) {
    if constexpr (Config::kIsAligned) {
      u32 words[4];
      load_global_16(words, from + col);
      store_global_16(to + col, words);
    } else {
      to[col] = from[col];
    }
  }
}

// Row `row` of the new ones goes from `from` to `to`, whose last rows they are.
template <class Config, int kDim>
LSSAR_DEVICE void append_row(const TensorRef& cache, const SequenceRows& to, const TensorRef& added,
                             const SequenceRows& from, int head, i64 row) {
  using Element = typename Config::Element;
  const i64 last = to.first + to.length - from.length + row;
  copy_row<Config, kDim>(row_pointer<Element>(cache, to.batch, head, last),
                         row_pointer<const Element>(added, from.batch, head, from.first + row));
}

template <class Config, int kLaunch>
LSSAR_DEVICE void append_rows(const SequencesParams& all) {
  if (warp_index() == 0) find_sequence<kLaunch, false>(all);
  block_barrier();
  const int b = sequence_of_block;
  if (b < 0) return;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  const SequenceRows from = new_rows(all, b), to = key_rows(all, b);
  const BlockPlace place =
      block_place<Config>(ceil_div(from.length, kRowsPerBlock), all.attention.kv_heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  if (row >= from.length) return;
  append_row<Config, Config::kHeadDim>(all.k_cache, to, all.k_new, from, place.head, row);
  append_row<Config, Config::kHeadDimV>(all.attention.v, to, all.v_new, from, place.head, row);
}

}  // namespace lssar_device
