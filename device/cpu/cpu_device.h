// The cpu device: runs kernels that the LLVM compiler made for the host's CPU. Its memory is the
// host's; a launch runs when it is called and returns at its end.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace lssar {

// `target` must be one that the machine runs (cpu_target_for). `num_threads` 0: as many as CPUs
// that the process may run on.
std::shared_ptr<Device> make_cpu_device(const Target& target, int num_threads = 0);

}  // namespace lssar
