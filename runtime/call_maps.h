// The tensor maps of a call: what LaunchStep::maps name, over the call's tensors and workspace.
//
// Internal to runtime/: executor.cpp encodes them. Threads: pure functions; nothing here allocates
// unless it fails.
#pragma once

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"
#include "device/tensor_map.h"
#include "runtime/call.h"

namespace lssar {

// One call of a kernel; the call was checked (check_sizes, check_tensors). Refers to what its maker
// holds.
struct CheckedCall {
  const Problem& problem;
  const Sizes& sizes;
  const Tensors& tensors;
  DevicePtr workspace;
  const WorkspaceLayout& layout;
};

// A request that the device can encode. A dimension of size 1 has a stride of the library's own,
// since nothing is reached by it; a tensor without elements has dimensions of 1 at an address of
// the call, since a kernel may run that loads nothing of it (seq_k = 0 writes zeros).
// kInvalidArgument names tensor, field and value where a map cannot take the call's strides.
// REQUIRES: the call has queries, or keys for the steps that are cut from keys.
Result<TensorMapRequest> tensor_map_request(const MapSpec& spec, const CheckedCall& call);

// "q", "k_inv_norm", ...: as in messages about the call.
const char* map_tensor_name(MapTensor tensor);

}  // namespace lssar
