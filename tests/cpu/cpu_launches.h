// The launches of one pass of a CPU kernel, for a test that runs them by itself.
//
// NOTE: lssar_device is a namespace here, and an enum in the C API's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "templates/kernels/params.cuh"

namespace lssar {

// The launches of one pass.
struct CpuLaunches {
  struct Memory {
    void* begin;
    size_t bytes;
  };
  struct Launch {
    const LaunchStep& step;
    uint32_t first_block, num_blocks;
  };
  const KernelSource& kernel;
  std::vector<Launch> launches;  // in order
  const lssar_device::AttentionParams& params;
  std::vector<Memory> memory;  // what `params` points to
};

}  // namespace lssar
