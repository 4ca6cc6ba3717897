// Sequences that have lengths of their own: where their rows are, and which one a block works on.
//
// kHasLengths.
//
// A launch has the blocks of all sequences, in the order of SequencesParams::order. The host knows
// only how many blocks there may be at most, so the last ones may find that nothing is left.
//
// To its kernel a block seems to work on one sequence alone: its parameters have the sequence's own
// pointers, lengths and parts of the workspace, and block_place counts its own blocks.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/tile/dq_turns.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// Where the rows of one sequence are.
struct SequenceRows {
  i64 batch;   // batch entry of the tensors that hold all sequences
  i64 first;   // its first row there
  i64 before;  // rows before it in memory that holds sequence after sequence, used or not
  i64 length;
};

// REQUIRES: has_good_rows.
LSSAR_DEVICE SequenceRows rows_of_sequence(int b, const int* cu_seqlens, const int* used,
                                           i64 most) {
  SequenceRows rows = {b, 0, b * most, most};
  if (cu_seqlens != nullptr) {
    const i64 first = cu_seqlens[b];
    rows = {0, first, first, cu_seqlens[b + 1] - first};
  }
  if (used != nullptr) rows.length = used[b];
  return rows;
}
LSSAR_DEVICE SequenceRows query_rows(const SequencesParams& all, int b) {
  return rows_of_sequence(b, all.cu_seqlens_q, all.seqused_q, all.attention.seq_q);
}
LSSAR_DEVICE SequenceRows key_rows(const SequencesParams& all, int b) {
  return rows_of_sequence(b, all.cu_seqlens_k, all.seqused_k, all.attention.seq_k);
}

LSSAR_DEVICE SequenceRows new_rows(const SequencesParams& all, int b) {
  return rows_of_sequence(b, all.cu_seqlens_new, nullptr, all.seq_new);
}

template <class T>
LSSAR_DEVICE void move_to_sequence(TensorRef& tensor, const SequenceRows& rows) {
  tensor.data = static_cast<T*>(tensor.data) + rows.batch * tensor.batch_stride +
                rows.first * tensor.row_stride;
}

// Sets `own` to the parameters of sequence b.
template <class Config>
LSSAR_DEVICE void set_sequence(AttentionParams& own, const SequencesParams& all, int b) {
  using Element = typename Config::Element;
  own = all.attention;
  const SequenceRows q = query_rows(all, b), k = key_rows(all, b);
  move_to_sequence<Element>(own.q, q);
  move_to_sequence<Element>(own.o, q);
  move_to_sequence<Element>(own.grad_o, q);
  move_to_sequence<Element>(own.grad_q, q);
  move_to_sequence<Element>(own.k, k);
  move_to_sequence<Element>(own.v, k);
  move_to_sequence<Element>(own.grad_k, k);
  move_to_sequence<Element>(own.grad_v, k);
  own.seq_q = q.length;
  own.seq_k = k.length;
  own.batch = 1;
  const i64 rows_before = q.before * own.heads;
  own.saved_o = static_cast<Bf16*>(own.saved_o) + rows_before * Config::kHeadDimV;
  if (own.saved_stats != nullptr) own.saved_stats += rows_before * 4;
  // With ALiBi these are slopes, which all sequences share.
  if constexpr (!Config::kHasAlibi)
    own.saved_x =
        static_cast<typename Config::SavedX*>(own.saved_x) + rows_before * Config::kHeadDimV;
  own.q_inv_norm += rows_before;
  own.row_constants += rows_before * (kRowConstantBytes / 4);
  own.grad_q_sum += rows_before * Config::kHeadDim;
  own.sink_terms += rows_before * 2;
  // Each sequence rounds the norms of a head, and the turns, up to whole groups.
  if constexpr (Config::kSplitKeys == 0)
    own.k_inv_norm += (k.before / 4 + b) * 4 * own.kv_heads;
  else
    own.k_inv_norm += rows_before * decode_row_floats<Config>(all.attention.seq_k);
  if constexpr (Config::kOrderedDq)
    own.dq_turns += DqTurns<Config>::before_sequence(q.before, b, own.heads);
}

// The last of `count` numbers that is at most `value`, or the first one. The numbers do not
// decrease. All lanes of a warp call it.
LSSAR_DEVICE int last_at_most(const int* numbers, int count, u32 value) {
  int first = 0;
  while (count > 1) {
    const int step = (count + kWarpThreads - 1) / kWarpThreads;
    const int at = lane_index() * step;
    const bool is_at_most = at < count && static_cast<u32>(numbers[first + at]) <= value;
    const int skipped = static_cast<int>(warp_maximum(is_at_most ? at : 0));
    first += skipped;
    count = minimum(step, count - skipped);
  }
  return first;
}

// The sequence of the block; -1 if no work is left for it.
__shared__ int sequence_of_block;

// Finds the block's sequence and its number in it. One warp calls it; its first lane gets the
// sequence, the others -1. With kTakesTicket blocks are numbered in the order in which they start
// (tile/dq_turns.cuh).
template <int kLaunch, bool kTakesTicket>
LSSAR_DEVICE int find_sequence(const SequencesParams& all) {
  u32 block = block_index();
  if constexpr (kTakesTicket) {
    u32 ticket = 0;
    if (lane_index() == 0) ticket = add_relaxed(all.attention.dq_turns, 1);
    block = warp_maximum(ticket);
  }
  const int count = all.attention.batch;
  const int* first_tiles = all.first_tiles + i64{kLaunch} * (count + 1);
  const u32 heads = static_cast<u32>(all.launches[kLaunch].heads);
  const u32 tile = block / heads;
  const int at = last_at_most(first_tiles, count, tile);
  if (lane_index() != 0) return -1;
  const int b = tile < static_cast<u32>(first_tiles[count]) ? all.order[at] : -1;
  block_of_sequence = block - static_cast<u32>(first_tiles[at]) * heads;
  sequence_of_block = b;
  return b;
}

// Sets `own` to the parameters of the block's sequence. False: the block has nothing to do. All
// threads of a block call this first. With kIsShared `own` is in shared memory; otherwise each
// thread has its own.
//
// A kernel of tiles with a copy for each thread takes about 20 registers more, and some spill.
template <class Config, int kLaunch, bool kTakesTicket, bool kIsShared>
LSSAR_DEVICE bool enter_sequence(AttentionParams& own, const SequencesParams& all) {
  if (warp_index() == 0) {
    if constexpr (kIsShared) {
      const int b = find_sequence<kLaunch, kTakesTicket>(all);
      if (b >= 0) set_sequence<Config>(own, all, b);
    } else {
      find_sequence<kLaunch, kTakesTicket>(all);
    }
  }
  block_barrier();
  if (sequence_of_block < 0) return false;
  if constexpr (!kIsShared) set_sequence<Config>(own, all, sequence_of_block);
  return true;
}

}  // namespace lssar_device
