// The rows and keys that a block works on, and the keys that a row sees.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/convert.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/math.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/tile/window.cuh"

namespace lssar_device {

// Lengths are constants of the problem, or values of the call if those are 0.
template <class Config>
LSSAR_DEVICE i64 seq_q(const AttentionParams& params) {
  return Config::kSeqQ ? Config::kSeqQ : params.seq_q;
}
template <class Config>
LSSAR_DEVICE i64 seq_k(const AttentionParams& params) {
  return Config::kSeqK ? Config::kSeqK : params.seq_k;
}

// Floats from one (batch, kv head) to the next in k_inv_norm: a multiple of 16 bytes.
//
// A tensor map requires that of its strides.
template <class Config>
LSSAR_DEVICE i64 key_norm_pitch(const AttentionParams& params) {
  return (seq_k<Config>(params) + 3) / 4 * 4;
}

// kSplitKeys: the floats that a row of few queries has in the workspace, if it may see `keys` keys
// (decode/memory.cuh).
template <class Config>
LSSAR_DEVICE i64 decode_row_floats(i64 keys) {
  return (keys + Config::kSplitKeys - 1) / Config::kSplitKeys *
         (Config::kSplitKeys + kDecodeParts + Config::kHeadDimV);
}

// N_i: row i sees keys j < N_i. Rows outside the problem see none.
//
// For a range of keys, N_i counts all keys. With a window it also says which keys these are.
template <class Config>
LSSAR_DEVICE RowKeys<Config> num_visible_keys(const AttentionParams& params, i64 row) {
  const i64 queries = seq_q<Config>(params);
  if (row >= queries) return 0;
  const i64 keys = Config::kIsRange ? params.num_keys : seq_k<Config>(params);
  if (!Config::kIsCausal && !Config::kHasWindow) return keys;
  const i64 shift = Config::kIsRange ? params.query_shift : keys - queries;
  if constexpr (Config::kHasWindow) return window_keys<Config>(row + shift, keys);
  return minimum(maximum(row + 1 + shift, i64{0}), keys);
}

// Whether a row's output shows the rounding of single weights. Not if it is divided by their sum.
template <class Config>
LSSAR_DEVICE bool has_few_keys(i64 visible) {
  constexpr i64 kFewKeys = 8;
  return !Config::kIsFp32 && Config::kDivisorSum == 0 && visible <= kFewKeys;
}

// How many of the first `visible` keys are among the call's.
//
// kHasWindow: which of the keys in `visible` are, counted from the call's first key.
template <class Config>
LSSAR_DEVICE RowKeys<Config> keys_in_range(const AttentionParams& params, RowKeys<Config> visible) {
  if (!Config::kIsRange) return visible;
  if constexpr (Config::kHasWindow)
    return window_in_range(visible, params.first_key, seq_k<Config>(params));
  return minimum(maximum(visible - params.first_key, i64{0}), seq_k<Config>(params));
}

// A block's place: tile `tile_idx` of `num_tiles`, of one head of one batch entry.
struct BlockPlace {
  i64 tile_idx;
  int head;
  int batch;
};

// kHasLengths: the block's number among those of its sequence (tile/sequences.cuh).
__shared__ u32 block_of_sequence;

// Blocks are numbered with the tile running fastest.
template <class Config>
LSSAR_DEVICE BlockPlace block_place(i64 num_tiles, int heads, u32 block = block_index()) {
  if constexpr (Config::kHasLengths) block = block_of_sequence;
  const u32 slice = block / static_cast<u32>(num_tiles);
  BlockPlace place;
  place.tile_idx = block - slice * static_cast<u32>(num_tiles);
  place.batch = static_cast<int>(slice / static_cast<u32>(heads));
  place.head = static_cast<int>(slice - static_cast<u32>(place.batch) * static_cast<u32>(heads));
  return place;
}

template <class T>
LSSAR_DEVICE T* row_pointer(const TensorRef& tensor, int batch, int head, i64 row) {
  return static_cast<T*>(tensor.data) + batch * tensor.batch_stride + head * tensor.head_stride +
         row * tensor.row_stride;
}

LSSAR_DEVICE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Two neighbouring elements to global memory.
template <bool kAligned, class T>
LSSAR_DEVICE void store_pair(T* address, float x, float y) {
  if constexpr (kAligned && sizeof(T) == 4) {
    store_global_8(address, x, y);
  } else if constexpr (kAligned) {
    store_global_4(address, pack<T>(x, y));
  } else {
    from_float(address[0], x);
    from_float(address[1], y);
  }
}

}  // namespace lssar_device
