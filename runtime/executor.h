// Launches one call: parameters from tensors, tensor maps, grids from sizes.
//
// Internal to runtime/: used by engine.cpp once the call is checked. Threads: no state.
#pragma once

#include <vector>

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/sizes.h"
#include "device/device.h"
#include "runtime/call_maps.h"
#include "runtime/step_function.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {

lssar_device::TensorRef tensor_ref(const Tensor& tensor);
lssar_device::AttentionParams attention_params(const CheckedCall& call);

// The call's tensors as kernels after the rotations see them: q and k are in the workspace,
// contiguous and in the shapes of the call's. Without rotary positions they are the call's.
Tensors rotated_tensors(const CheckedCall& call, const TensorShapes& shapes);

// What a rotation turns of all rows. REQUIRES: a rotation other than kNone; call.tensors as the
// caller gave them.
lssar_device::RotaryParams rotary_params(Rotation rotation, const CheckedCall& call,
                                         const TensorShapes& shapes);

// The launch of a step on a device of `num_sms`. The grid is 0 if there are no rows. A persistent
// kernel gets no more blocks than run at once. kInvalidArgument beyond 2^31 - 1 blocks.
Result<LaunchConfig> launch_config(const LaunchStep& step, const Sizes& sizes, int num_sms,
                                   int resident_clusters = 0);

// Which (batch, kv head) the steps compute together. On a CPU there may be more of them than the
// workspace has panels for. Then all steps run for some of them, then for the next ones.
struct SliceTurns {
  SliceTurns(const Sizes& sizes, const WorkspaceLayout& layout);
  // What the turn that begins with slice `first` launches of `whole`. A step of whole heads runs in
  // the last turn.
  LaunchConfig part(const LaunchStep& step, LaunchConfig whole, int64_t first) const;

  int64_t slices = 1, of_turn = 1;  // (batch, kv head): all, and those of a turn
};

// Looks the function up on the device, and requests shared memory above the default limit.
Result<StepFunction> prepare_step(Device& device, const LaunchStep& step,
                                  const DeviceFunction* function);

// Enqueues every step that has blocks, in order, for all turns. Allocates nothing. `functions` has
// one entry per step. After an error in sizes or tensor maps nothing was launched. REQUIRES: the
// steps have at most kMaxKernelMaps maps, each at most kMaxTensorMaps.
Status launch_steps(Device& device, const std::vector<LaunchStep>& steps,
                    const std::vector<StepFunction>& functions, const CheckedCall& call,
                    Stream stream);

}  // namespace lssar
