// The tensor maps of a call: those that LaunchStep::maps names, over the call's tensors and
// workspace.
//
// Internal to runtime/: executor.cpp encodes them. Threads: pure functions. They allocate only to
// report an error.
#pragma once

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"
#include "device/tensor_map.h"
#include "runtime/call.h"

namespace lssar {

// A call that passed check_sizes and check_tensors. Refers to objects that the caller owns.
struct CheckedCall {
  const Problem& problem;
  const Sizes& sizes;
  const Tensors& tensors;
  DevicePtr workspace;
  const WorkspaceLayout& layout;
};

// A request that the device can encode. A dimension of size 1 gets a stride that the library
// chooses, because no element is reached by it. An empty tensor gets dimensions of 1 at some
// address of the call: a kernel may run and load nothing of it (seq_k = 0 writes zeros).
// kInvalidArgument names tensor, field and value if a map cannot take the call's strides. REQUIRES:
// the call has queries or, for steps that are cut from keys, keys.
Result<TensorMapRequest> tensor_map_request(const MapSpec& spec, const CheckedCall& call);

// The same for sequences (Problem::varlen): maps of the tensors that hold all of them. `shapes` are
// those of the tensors, and call.sizes those of the workspace. A map of norms, or of row constants,
// has no dimension for heads: sequence follows sequence, and in each of them head follows head.
Result<TensorMapRequest> tensor_map_request(const MapSpec& spec, const CheckedCall& call,
                                            const TensorShapes& shapes);

// The tensor's name in messages about the call: "q", "k_inv_norm", ...
const char* map_tensor_name(MapTensor tensor);

}  // namespace lssar
