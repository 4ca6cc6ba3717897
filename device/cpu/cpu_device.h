// The cpu device: runs kernels that the LLVM compiler made for the host's CPU. Its memory is the
// host's. A launch returns when all of its blocks have run.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/cpu/parallel_for.h"
#include "device/device.h"

namespace lssar {

struct CpuDeviceOptions {
  // 0: as many as the ThreadLimit allows, and no more than the launching thread has CPUs. A
  // parallel_for may have more threads than CPUs, so with one only the ThreadLimit counts.
  int num_threads = 0;
  ParallelFor parallel_for = {};  // without a function: a pool of the device's own
};

// This machine must be able to run `target` (cpu_target_for).
std::shared_ptr<Device> make_cpu_device(const Target& target, const CpuDeviceOptions& options = {});

// How many of `num_threads` threads a call of this many multiply-adds is worth (CallWork), on
// vectors of `lanes` floats.
int worthwhile_threads(int num_threads, double multiply_adds, int lanes);

}  // namespace lssar
