// Calls of sequences on GPUs (Problem::varlen). The lengths stay in device memory: the host only
// knows how long a sequence may be, and how many rows there are in all. From these follow the most
// blocks that a launch may need, and the workspace. The first launch reads the lengths and tells
// the blocks of the others where they work (templates/kernels/order_sequences.cuh).
//
// Internal to runtime/: used by sequences.cpp. Nothing here reads what a pointer of the call points
// to, so calls may be captured. Threads: no state.
#pragma once

#include "runtime/sequences.h"

namespace lssar {

Result<size_t> device_sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                                const Sizes& sizes, int64_t total_q,
                                                int64_t total_k);

// launch_sequences on a GPU.
Status launch_device_sequences(Device& device, const std::vector<LaunchStep>& steps,
                               const std::vector<StepFunction>& functions,
                               const SequencesCall& call, Stream stream);

}  // namespace lssar
