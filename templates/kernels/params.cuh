// The one argument of every kernel, laid out alike by host and device.
//
// The host compiler reads this file too (runtime/executor.cpp fills the argument), so it holds
// plain types only. All tensors are [batch, heads, length, dim] with a contiguous last dimension;
// strides are in elements.
#pragma once

namespace lssar_device {

struct TensorRef {
  void* data;
  long long batch_stride;
  long long head_stride;
  long long row_stride;
};

// Tensors without strides are contiguous; [rows] stands for [batch, heads, seq_q].
//
// kHasAlibi: saved_x is the heads' slopes (tile/changed_scores.cuh), since such problems save no X.
// kSplitKeys with kRotaryDim: grad_q and grad_k are tables (decode/turn_tile.cuh).
struct AttentionParams {
  TensorRef q;       // [batch, heads, seq_q, head_dim]
  TensorRef k;       // [batch, kv_heads, seq_k, head_dim]
  TensorRef v;       // [batch, kv_heads, seq_k, head_dim_v]
  TensorRef o;       // [batch, heads, seq_q, head_dim_v]; forward: written, backward: read
  TensorRef grad_o;  // like o; backward: read
  TensorRef grad_q;  // like q, k, v; backward: written
  TensorRef grad_k;
  TensorRef grad_v;

  // Saved by the forward for training, read by the backward.
  void* saved_o;  // [rows, head_dim_v]: bf16, what rounding took from o; fp32 problems: null
  // [4, rows]: R, m, zs (natural units), largest score in bits. May be null in a forward.
  //
  // Row sums write R and the score; weighted sum reads these two and writes the others.
  // kIsGeneral: see general_range.cuh.
  float* saved_stats;
  void* saved_x;  // [rows, head_dim_v]: X, bf16 (fp32 problems: float32); null where unused
  float* partial_o;  // [rows, head_dim_v]; weighted sum: written, undivided

  // Workspace.
  float* q_inv_norm;  // [rows]: 1 / |q|, 0 where |q| <= 1e-12, NaN where q is not finite
  float* k_inv_norm;  // [batch, kv_heads, key_norm_pitch]: see tile/rows.cuh; the pad is not read
  float* row_constants;  // [rows, 8]: see tile/row_constants.cuh
  float* grad_q_sum;     // float32 sums of DqMode atomic and ordered: see tile/grad_q_sum.cuh
  unsigned* dq_turns;    // DqMode ordered: see tile/dq_turns.cuh
  unsigned* tickets;     // tickets drawn so far: see tile/tickets.cuh

  long long seq_q;
  long long seq_k;
  int batch;
  int heads;
  int kv_heads;
  int panel_slices;  // CPU: for how many (batch, kv head) the workspace has panels; else 0

  // For row sums and weighted sum: k and v are a range of all keys, q is a range of all queries.
  // Row i sees keys j < clamp(i + 1 + query_shift, 0, num_keys) of all keys; without causal, all
  // num_keys.
  long long first_key;
  long long num_keys;
  long long query_shift;

  // Only for score functions with a sink; otherwise null.
  const float* sink;  // [heads]: its logits
  float* grad_sink;   // [heads]; backward: written
  float* sink_terms;  // workspace, [2, rows]: see tile/sink.cuh
};

// What the rows of a launch are.
inline constexpr int kQueryRows = 0;
inline constexpr int kKeyRows = 1;
inline constexpr int kNewRows = 2;  // of new keys and values

// How one launch divides the rows of a sequence among its blocks. Each of `heads` heads has
// ceil(rows of the sequence / rows) * parts tiles, one for each block.
struct SequenceLaunch {
  int heads;  // 0: the launch has no tiles
  int rows;
  int parts;     // 1, or as in tile/query_tiles.cuh
  int rows_are;  // 0: queries, 1: keys, 2: new keys
};

inline constexpr int kMaxSequenceLaunches = 12;

// Norms that a block of lssar_key_norms copies in a call with SequencesParams::key_norms.
inline constexpr int kKeptNormsOfBlock = 1024;

// The argument for sequences that have lengths of their own. Row 0 of sequence b is
// row cu_seqlens[b] of tensors of batch 1. Without cu_seqlens it is row 0 of batch entry b.
struct SequencesParams {
  // The tensors and the workspace of all sequences. `batch` is their number, seq_q and seq_k are
  // the most rows that one may have.
  AttentionParams attention;

  const int* cu_seqlens_q;  // [batch + 1] or null
  const int* cu_seqlens_k;
  const int* seqused_q;  // [batch]: how many rows are used; null: all
  const int* seqused_k;
  long long total_q;  // rows of tensors of batch 1
  long long total_k;

  // Workspace, written by the first launch: see kernels/order_sequences.cuh.
  int* num_sequences;  // [1]: batch, or 0 if a length is bad
  int* buckets;        // [batch]
  int* order;          // [batch]: the sequences, those with the most work first
  int* first_tiles;    // [launches, batch + 1]: tiles of one head before order[n]

  SequenceLaunch launches[kMaxSequenceLaunches];

  // kAppends: new keys and values, which are written over each sequence's last keys and values
  // before anything reads them (decode/append.cuh). Without cu_seqlens_new a sequence has seq_new.
  TensorRef k_new;    // [batch, kv_heads, seq_new, head_dim], or packed as q is
  TensorRef v_new;    // likewise, head_dim_v
  TensorRef k_cache;  // where new keys go: the call's k, also where attention.k has rotated keys
  const int* cu_seqlens_new;  // [batch + 1] or null
  long long seq_new;          // the most that one sequence may have; 0: none has any
  long long total_new;        // rows of tensors of batch 1

  // kAppends: k_inv_norm of all keys, kept from call to call, [batch, kv_heads, seq_k] or
  // [1, kv_heads, total_k]; may be null.
  float* key_norms;
};

// What a TMA instruction takes: a tensor and its box, in the encoding of the device.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

inline constexpr int kMaxTensorMaps = 8;  // of one kernel

// Kernels take it as a __grid_constant__, because a map is used where it is.
struct TmaParams {
  TensorMap maps[kMaxTensorMaps];  // in the order of LaunchStep::maps; the rest is zero
  AttentionParams attention;
};

// The argument of kernels with maps, for such sequences. The maps describe the tensors of all
// sequences, because the host does not know where each begins.
struct SequencesTmaParams {
  TmaParams tma;  // its `attention` is not read
  SequencesParams sequences;
};

}  // namespace lssar_device
