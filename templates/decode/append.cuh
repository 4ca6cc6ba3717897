// Writes new keys and values into caches: over the last rows of each sequence's k and v. Where a
// call keeps norms of keys beside the cache, writes those of the new ones.
//
// Eight lanes copy a row of k_new and one of v_new. A block has kRowThreads / 8 rows of one head.
#pragma once

#include "templates/kernels/key_norms.cuh"
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

// The kept norms of a head's keys.
LSSAR_DEVICE float* kept_norms(const SequencesParams& all, const SequenceRows& keys, int head) {
  const i64 rows = all.cu_seqlens_k == nullptr ? all.attention.seq_k : all.total_k;
  return all.key_norms + (keys.batch * all.attention.kv_heads + head) * rows + keys.first;
}

// Keeps the norm of new key `row`, the same bits as key_norms computes. All lanes of a warp call
// it, and those of a row past the end write nothing.
template <class Config>
LSSAR_DEVICE void keep_norm(const SequencesParams& all, const SequenceRows& to,
                            const SequenceRows& from, int head, i64 row) {
  using Element = typename Config::Element;
  const i64 read_row = minimum(row, from.length - 1);
  const Element* k =
      row_pointer<const Element>(all.k_new, from.batch, head, from.first + read_row);
  const float inverse =
      inverse_norm<Config>(row_square<Config::kHeadDim, Config::kIsAligned, Element>(k));
  if (row < from.length && row_group_lane() == 0)
    kept_norms(all, to, head)[to.length - from.length + row] = inverse;
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
  // The norms of turned keys have other bits, so calls with rotary positions keep none.
  if constexpr (Config::kHasNorms && Config::kRotaryDim == 0) {
    if (all.key_norms != nullptr) keep_norm<Config>(all, to, from, place.head, row);
  }
  if (row >= from.length) return;
  append_row<Config, Config::kHeadDim>(all.k_cache, to, all.k_new, from, place.head, row);
  append_row<Config, Config::kHeadDimV>(all.attention.v, to, all.v_new, from, place.head, row);
}

// As key_norms, for a problem that keeps norms. In a call that has them, those of old and new keys
// are copied from there, kKeptNormsOfBlock by each block, and no key is read.
template <class Config>
LSSAR_DEVICE void key_norms_of_sequence(const AttentionParams& own, const SequencesParams& all) {
  if (all.key_norms == nullptr) {
    key_norms<Config>(own);
    return;
  }
  const i64 keys = seq_k<Config>(own), pitch = key_norm_pitch<Config>(own);
  const BlockPlace place = block_place<Config>(ceil_div(keys, kKeptNormsOfBlock), own.kv_heads);
  const i64 first = place.tile_idx * kKeptNormsOfBlock;
  const i64 end = minimum(first + kKeptNormsOfBlock, pitch);
  const float* from = kept_norms(all, key_rows(all, sequence_of_block), place.head);
  float* to = own.k_inv_norm + place.head * pitch;
  // Unrolled it would take more registers, and then fewer blocks of key_norms fit on an SM.
#pragma unroll 1
  for (i64 row = first + thread_index(); row < end; row += Config::kRowThreads)
    to[row] = row < keys ? from[row] : 0.0f;
}

}  // namespace lssar_device
