// Sequences that have lengths of their own in kernels that load by TMA (tile/sequences.cuh has the
// others).
//
// A tensor map describes the tensor of all sequences, so coordinates count from its first row. A
// box may reach into the next sequence: there tiles are cleared (tile/clear_unseen.cuh).
#pragma once

#include "templates/ptx/index.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/sequences.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

// Where a tensor map has the rows of a sequence.
struct MapRows {
  int first, batch;
};

// What producer and consumers of a block know about its sequence.
struct TmaSequence {
  AttentionParams attention;
  MapRows queries, keys;
  int first_constants;  // row of the first head's row constants
};
__shared__ TmaSequence tma_sequence;

// As enter_sequence, for tma_sequence.
template <class Config, int kLaunch, bool kTakesTicket>
LSSAR_DEVICE bool enter_tma_sequence(const SequencesParams& all) {
  if (warp_index() == 0) {
    const int b = find_sequence<kLaunch, kTakesTicket>(all);
    if (b >= 0) {
      set_sequence<Config>(tma_sequence.attention, all, b);
      const SequenceRows q = query_rows(all, b), k = key_rows(all, b);
      tma_sequence.queries = {static_cast<int>(q.first), static_cast<int>(q.batch)};
      tma_sequence.keys = {static_cast<int>(k.first), static_cast<int>(k.batch)};
      tma_sequence.first_constants = static_cast<int>(q.before * all.attention.heads);
    }
  }
  block_barrier();
  return sequence_of_block >= 0;
}

// As load_tile, for row `row` of a sequence whose rows are `rows`.
template <class Tile>
LSSAR_DEVICE void load_sequence_tile(u32 address, const TensorMap& map, u32 barrier, int col,
                                     const MapRows& rows, i64 row, int head) {
  load_tile<Tile>(address, map, barrier, col, rows.first + row, head, rows.batch);
}

// How many norms load_sequence_norms loads of a tile of kCols keys: those of the sequence, and up
// to 3 zeros that follow them.
template <class Config, int kCols>
LSSAR_DEVICE int num_norms(int first_key) {
  const int pitch = static_cast<int>(key_norm_pitch<Config>(tma_sequence.attention));
  return minimum(pitch - first_key, kCols);
}
// Other keys of the tile keep what was there before: any number.
template <class Config, int kCols>
LSSAR_DEVICE void load_sequence_norms(u32 address, u32 barrier, int kv_head, int first_key) {
  const AttentionParams& params = tma_sequence.attention;
  const float* norms = params.k_inv_norm + kv_head * key_norm_pitch<Config>(params) + first_key;
  bulk_load(address, norms, barrier, num_norms<Config, kCols>(first_key) * 4);
}
// Gives norms a value before the first load. All threads of a block call it before a barrier.
template <int kThreads>
LSSAR_DEVICE void clear_norms(u32 address, int bytes) {
  const u32 zeros[4] = {0, 0, 0, 0};
  for (int at = thread_index() * kVectorBytes; at < bytes; at += kThreads * kVectorBytes)
    store_shared(address + at, zeros);
  fence_async_shared();
}

}  // namespace lssar_device
