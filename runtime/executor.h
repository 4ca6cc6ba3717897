// The launches of one call: parameters from tensors, grids from sizes.
//
// Internal to runtime/: used by engine.cpp once the call is checked. Threads: no state.
#pragma once

#include "base/status.h"
#include "codegen/kernel.h"
#include "runtime/call.h"
#include "runtime/device.h"
#include "templates/kernels/params.cuh"

namespace lssar {

lssar_device::AttentionParams attention_params(const Problem& problem, const Sizes& sizes,
                                               const Tensors& tensors, DevicePtr workspace,
                                               const WorkspaceLayout& layout);

// Blocks of a step: 0 where there are no rows. kInvalidArgument beyond 2^31 - 1.
Result<uint32_t> grid_blocks(const LaunchStep& step, const Sizes& sizes);

// Enqueues every step with a block to run, in order. `functions` has one entry per step.
Status launch_steps(Device& device, const std::vector<LaunchStep>& steps,
                    const std::vector<const DeviceFunction*>& functions, const Sizes& sizes,
                    const lssar_device::AttentionParams& params, Stream stream);

}  // namespace lssar
