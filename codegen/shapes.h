// The host's computation of a kernel's shared memory and threads. The emitted source asserts that
// the device computes the same (templates/kernels/*.cuh).
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "templates/ptx/sizes.cuh"

namespace lssar {

using lssar_constants::kBarrierBytes;
using lssar_constants::kRowConstantBytes;
using lssar_constants::kRowGroupThreads;
using lssar_constants::kTicketBytes;
using lssar_constants::kWarpGroupRows;
using lssar_constants::kWarpGroupThreads;
using lssar_constants::kWarpRows;
using lssar_constants::kWarpThreads;
constexpr int kRowThreads = 128;  // in kernels that work on whole rows

// A head dim as kernels store it: rounded up to the depth of an mma.
int padded_dim(int dim);

inline int tiling_threads(const Tiling& tiling) {
  return tiling.block_rows / kWarpRows * kWarpThreads;
}

// Static shared memory, besides the dynamic one.
inline int static_shared_bytes(const Problem& problem) {
  return problem.varlen ? lssar_constants::kSequenceSharedBytes : 0;
}
// The same of the kernels of Variant::kHopper.
inline int hopper_static_shared_bytes(const Problem& problem) {
  return problem.varlen ? lssar_constants::kSequenceTmaSharedBytes : 0;
}

int forward_shared_bytes(const Problem& problem, const Schedule& schedule);
// Bytes of shared memory of lssar_decode_values and lssar_decode_outputs (Schedule::split_keys).
// lssar_decode_scores has forward_shared_bytes.
int decode_values_shared_bytes(const Problem& problem, const Schedule& schedule);
int decode_outputs_shared_bytes(const Problem& problem);
// Registers per thread that setmaxnreg gives the producer and the consumers. 0 and 0: not used.
struct RegisterSplit {
  int producer = 0;
  int consumer = 0;
};
// The schedule's own registers if it names them, otherwise those that suit the tiling's threads and
// blocks per SM best. `cluster` is the number of blocks to which the producer sends tiles; more
// than one takes more registers. So do sequences (Problem::varlen) in a forward for training.
RegisterSplit hopper_registers(const HopperOptions& hopper, const Tiling& tiling, int cluster = 1,
                               bool has_sequences = false);
// Registers per thread with which a block is launched.
int hopper_launch_registers(const Tiling& tiling);
// Keys per tile of pass 1. If pass 1 uses the tiles of pass 2, or there is only pass 2, those of
// pass 2.
int hopper_score_cols(const Problem& problem, const Schedule& schedule);
int hopper_forward_shared_bytes(const Problem& problem, const Schedule& schedule);
int hopper_dkdv_shared_bytes(const Problem& problem, const Schedule& schedule);
int hopper_dq_shared_bytes(const Problem& problem, const Schedule& schedule);
// Columns of dq that a consumer of the dk/dv kernel computes (sums_dq): half of them, in whole
// chunks of 64 if there is more than one chunk.
int hopper_query_grad_cols(const Problem& problem, const Schedule& schedule);
// Columns of dq that one TMA instruction adds (sums_by_tma).
int hopper_sum_cols(const Problem& problem, const Schedule& schedule);
// One consumer warp group per 64 rows, and the producer.
inline int hopper_threads(const Tiling& tiling) {
  return (1 + tiling.block_rows / kWarpGroupRows) * kWarpGroupThreads;
}
// A head dim rounded up to whole vectors, as kernels of a CPU target hold o.
int cpu_padded_dim(int dim, const Target& target);
// Bytes of a thread's working memory in the CPU forwards: ForwardScratch and, with sums_x,
// SlopeScratch (templates/cpu/forward_output.h).
int cpu_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target);
// Bytes of a kv head's packed keys.
int64_t cpu_packed_bytes(const Problem& problem, const Schedule& schedule, int64_t seq_k);
// The same of what `rows` rows keep of a kv head's keys, where these are few queries.
int64_t cpu_few_bytes(const Problem& problem, int64_t rows, int64_t seq_k);
// Whichever of these the call has.
int64_t cpu_slice_bytes(const Problem& problem, const Schedule& schedule, const Sizes& sizes);
// What suffices for a kv head of `batch` sequences with `total_k` keys in all.
int64_t cpu_sequences_slice_bytes(const Problem& problem, const Schedule& schedule, int64_t batch,
                                  int64_t total_k);
// For how many of a call's (batch, kv head) the workspace has room at once; at least 1. They take
// turns, so memory stops growing with heads at about 32 MiB (docs/cpu.md, Memory).
int64_t cpu_panel_slices(const Problem& problem, const Schedule& schedule, const Sizes& sizes);

// With sums_dq on a CPU: bytes of a head's sums of dq, and of the turns of its tiles
// (templates/cpu/ordered_dq.h).
int64_t cpu_query_sum_bytes(const Problem& problem, int64_t seq_q);
int64_t cpu_turn_bytes(const Schedule& schedule, int64_t seq_q);
int dkdv_shared_bytes(const Problem& problem, const Schedule& schedule);
int dq_shared_bytes(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
