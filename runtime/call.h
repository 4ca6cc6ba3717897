// One call of a kernel: the caller's tensors, their checks, and what the launches need.
//
// Used by engine.cpp and plan.cpp, which hold the prepared kernels. Nothing here compiles,
// allocates or takes a lock. Threads: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "device/device.h"

namespace lssar {

// [batch, heads, length, dim] with a contiguous last dimension; strides in elements.
struct Tensor {
  DevicePtr data = 0;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
};

Tensor contiguous_tensor(DevicePtr data, int64_t heads, int64_t length, int64_t dim);

// The tensors of a call. Shapes are as in templates/kernels/params.cuh. Each pass uses:
//   forward        q, k, v -> o
//   forward-train  q, k, v -> o, saved_o (where saves_o), saved_stats, saved_x (where saves_x)
//   backward       q, k, v, o, grad_o, saved_* (as above) -> grad_q, grad_k, grad_v
//   row-sums       q, k -> row_stats (planes 0 and 3; with is_general all)
//   weighted-sum   q, k, v, row_stats -> row_stats (planes 1 and 2; with is_general all), partial_o
// With reads_sink a pass also reads sink, and the backward writes grad_sink. With rotary_dim every
// pass also reads rotary_cos and rotary_sin; q, k and their gradients are those before rotation.
// forward also writes row_stats where it is not 0. With new keys it reads k_new and v_new, and
// writes them into k and v first. The others are ignored.
struct Tensors {
  Tensor q, k, v, o;
  Tensor k_new, v_new;
  Tensor grad_o, grad_q, grad_k, grad_v;
  DevicePtr saved_o = 0, saved_stats = 0, saved_x = 0;  // contiguous, sized by saved_bytes()
  DevicePtr row_stats = 0;  // same layout as saved_stats
  DevicePtr partial_o = 0;  // float32, contiguous like o
  DevicePtr sink = 0, grad_sink = 0;                    // float32 [heads]
  // With rotary_dim: float32, contiguous [rotary_positions, rotary_dim / 2], for at least seq_k
  // positions.
  DevicePtr rotary_cos = 0, rotary_sin = 0;
  int64_t rotary_positions = 0;
  DevicePtr alibi_slopes = 0;  // with reads_alibi: float32 [heads], read by every pass
  // With keeps_key_norms, or 0: float32, contiguous, one for each row of k. New keys' are written.
  DevicePtr key_norms = 0;
};

// The shapes of a call's tensors: [batch_q, heads, rows_q, dim] of queries and what is like them,
// [batch_k, kv_heads, rows_k, dim] of keys and values, [batch_new, kv_heads, rows_new, dim] of new
// ones.
struct TensorShapes {
  int64_t batch_q = 0, heads = 0, rows_q = 0;
  int64_t batch_k = 0, kv_heads = 0, rows_k = 0;
  int64_t positions = 0;  // rows that the call reads of tables of angles
  int64_t batch_new = 0, rows_new = 0;  // of new keys; rows_new 0: the call has none
};
inline TensorShapes shapes_of(const Sizes& sizes) {
  return {sizes.batch,    sizes.heads, sizes.seq_q, sizes.batch,
          sizes.kv_heads, sizes.seq_k, sizes.seq_k};
}

struct Workspace {
  DevicePtr data = 0;
  size_t bytes = 0;  // at least workspace_layout(...).total_bytes
};

// The sizes of a call for a problem that fixes all of them.
Sizes sizes_of(const Problem& problem);

// kInvalidArgument: a size that is negative, too large, or differs from the one that the problem
// fixes; kv_heads that does not divide heads; a range of keys that exceeds the whole.
Status check_sizes(const Problem& problem, const Sizes& sizes);

// kInvalidArgument, naming the tensor, for:
//   - a null pointer to a tensor that has elements;
//   - a pointer or a stride that is not a multiple of problem.alignment;
//   - a negative stride, or an extent that overflows;
//   - an output with two elements at one address;
//   - an output that certainly overlaps another tensor of the call (interleaved layouts such as
//     packed q, k, v are fine);
//   - fewer rotary positions than keys;
//   - a workspace of less than `workspace_needed` bytes.
// REQUIRES: check_sizes(problem, sizes).ok().
Status check_tensors(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                     const Tensors& tensors, const Workspace& workspace, size_t workspace_needed);

// kInvalidArgument: fewer rotary positions than a sequence may have keys.
Status check_rotary_positions(const Problem& problem, const Sizes& sizes, const Tensors& tensors);

// The largest alignment in bytes that every data pointer and every relevant stride has: from the
// element size up to 16, or 0 if a pointer is not even aligned to its elements.
int common_alignment(const Problem& problem, const TensorShapes& shapes, const Tensors& tensors);

}  // namespace lssar
