// Calls of sequences that have lengths of their own: packed one after another, or padded to one
// length. Each sequence is computed as a call of one batch entry, on its own part of the tensors
// and of the workspace. Each step is one launch with the blocks of all sequences. On the cpu device
// the host reads the lengths and divides the blocks (runtime/host_sequences.h); kernels of GPUs do
// it themselves (runtime/device_sequences.h).
//
// Used by engine.cpp and plan.cpp. Only errors allocate. Threads: any number may call; each call
// needs a workspace of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "codegen/launch_step.h"
#include "device/device.h"
#include "runtime/call.h"
#include "runtime/operands.h"
#include "runtime/step_function.h"

namespace lssar {

// The lengths of a call's sequences, in memory of the device. Sizes::batch is their number,
// Sizes::seq_q and seq_k are the most queries and keys that one may have.
//
// With cu_seqlens_q the queries are packed: those of sequence b are rows cu_seqlens_q[b] to
// cu_seqlens_q[b + 1] of tensors of batch 1 and total_q rows. Without it they are the first rows of
// batch entry b. seqused_q, where it is not null, says how many of these rows there are. Likewise
// for keys.
struct Sequences {
  const int32_t* cu_seqlens_q = nullptr;  // [batch + 1]
  const int32_t* cu_seqlens_k = nullptr;
  const int32_t* seqused_q = nullptr;  // [batch]
  const int32_t* seqused_k = nullptr;
  int64_t total_q = 0;  // rows of packed tensors; read only with cu_seqlens_q
  int64_t total_k = 0;

  // New keys and values, which a forward writes over the last rows of each sequence's k and v. A
  // sequence has at most seq_new; 0: none has any. With cu_seqlens_new they are packed in total_new
  // rows. Without it each sequence has seq_new.
  const int32_t* cu_seqlens_new = nullptr;  // [batch + 1]
  int64_t seq_new = 0;
  int64_t total_new = 0;
};

// Whether the call has sequences.
inline bool has_lengths(const Sequences& sequences) {
  return sequences.cu_seqlens_q != nullptr || sequences.cu_seqlens_k != nullptr ||
         sequences.seqused_q != nullptr || sequences.seqused_k != nullptr;
}

// The batch and lengths of the tensors that hold all sequences.
TensorShapes shapes_of(const Sizes& sizes, const Sequences& sequences);

// Puts the arrays of lengths among a call's operands.
void add_lengths(const Sizes& sizes, const Sequences& sequences, Operands& operands);

// Whether lengths are in memory that the host reads.
bool host_reads_lengths(const Device& device);

// kInvalidArgument names the first entry that is negative, beyond the tensor, below the entry
// before it, or makes a sequence too long; with rotary positions also the first sequence with more
// queries than keys; and the first sequence with more new keys than keys. REQUIRES: check_sizes,
// check_totals, check_new_keys and host_reads_lengths.
Status check_sequences(const Problem& problem, const Sizes& sizes, const Sequences& sequences);

// kInvalidArgument: a number of rows below 0 or above 2^31 - 1. `which` is "q", "k" or "new".
Status check_total(const char* which, int64_t total);
// The same of packed tensors.
Status check_totals(const Sequences& sequences);
// kInvalidArgument: seq_new below 0 or above 2^31 - 1, or not 0 in another pass than a forward;
// with packed new keys a total_new that is out of range.
Status check_new_keys(const Problem& problem, const Sequences& sequences);

// kInvalidArgument: key_norms is not null, and the problem keeps none.
Status check_key_norms(const Problem& problem, const Tensors& tensors);

// Bytes of workspace that suffice for every call of these sizes with `total_q` queries and
// `total_k` keys in all.
Result<size_t> sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes, int64_t total_q, int64_t total_k);

// What the forward for training saves: sequence after sequence, each as a call of one batch entry
// saves it. Rows that seqused_q leaves out have room too.
Result<SavedBytes> sequences_saved_bytes(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes, int64_t total_q);

// A call whose sizes, sequences and tensors were checked.
struct SequencesCall {
  const Problem& problem;
  const Schedule& schedule;
  const Sizes& sizes;
  const Sequences& sequences;
  const Tensors& tensors;
  const Workspace& workspace;
};

// Runs every step for all sequences. `functions` has one entry per step. kInvalidArgument: the
// workspace is too small, or a step has too many blocks; nothing was launched.
Status launch_sequences(Device& device, const std::vector<LaunchStep>& steps,
                        const std::vector<StepFunction>& functions, const SequencesCall& call,
                        Stream stream);

}  // namespace lssar
