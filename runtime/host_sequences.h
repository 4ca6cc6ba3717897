// Calls of sequences on the cpu device (Problem::varlen). The host reads the lengths, and divides
// the blocks of each launch among the sequences.
//
// Internal to runtime/: used by sequences.cpp. Threads: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/sequences.h"

namespace lssar {

// The rows of one sequence in tensors that hold all of them.
struct HostRows {
  int64_t batch = 0;
  int64_t first = 0;
  int64_t length = 0;
};

// Those of sequence b, which has `most` rows without cu_seqlens and used. REQUIRES: the host reads
// the lengths (host_reads_lengths).
HostRows host_rows(int64_t b, const int32_t* cu_seqlens, const int32_t* used, int64_t most);

Result<size_t> host_sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                              const Sizes& sizes, int64_t total_q, int64_t total_k);

// launch_sequences on the cpu device.
Status launch_host_sequences(Device& device, const std::vector<LaunchStep>& steps,
                             const std::vector<StepFunction>& functions, const SequencesCall& call);

}  // namespace lssar
