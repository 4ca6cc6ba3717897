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
struct AttentionParams {
  TensorRef q;       // [batch, heads, seq_q, head_dim]
  TensorRef k;       // [batch, kv_heads, seq_k, head_dim]
  TensorRef v;       // [batch, kv_heads, seq_k, head_dim_v]
  TensorRef o;       // [batch, heads, seq_q, head_dim_v]; forward: written
  TensorRef grad_o;  // like o; backward: read
  TensorRef grad_q;  // like q, k, v; backward: written
  TensorRef grad_k;
  TensorRef grad_v;

  // Saved by the forward for training, read by the backward.
  float* saved_o;  // [rows, head_dim_v]: o in float32; weighted sum: written, undivided
  // [4, rows]: R, m, zs (natural units), largest score in bits. May be null in a forward.
  //
  // Row sums write R and the score; weighted sum reads these two and writes the others.
  // kIsGeneral: see general_range.cuh.
  float* saved_stats;
  void* saved_x;  // [rows, head_dim_v]: X, bf16 (fp32 problems: float32); null where unused

  // Workspace.
  float* q_inv_norm;  // [rows]: 1 / |q|, 0 where |q| <= 1e-12, NaN where q is not finite
  float* k_inv_norm;  // [batch, kv_heads, key_norm_pitch]: see tile/rows.cuh; the pad is not read
  float* row_constants;  // [rows, 8]: see tile/row_constants.cuh
  float* grad_q_sum;     // float32 sums of DqMode atomic and ordered: see tile/grad_q_sum.cuh
  unsigned* dq_turns;    // DqMode ordered: see tile/dq_turns.cuh
  void* unused;          // keeps the offsets that kernels of older captures read
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

}  // namespace lssar_device
