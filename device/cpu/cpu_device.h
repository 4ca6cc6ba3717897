// The cpu device: runs kernels that the LLVM compiler made for the host's CPU. Its memory is the
// host's. A launch returns when all of its blocks have run.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace lssar {

// This machine must be able to run `target` (cpu_target_for). `num_threads` 0: one for each CPU
// that the process may run on.
std::shared_ptr<Device> make_cpu_device(const Target& target, int num_threads = 0);

}  // namespace lssar
