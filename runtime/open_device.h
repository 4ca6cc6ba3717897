// Chooses and opens the device. This is the only place that knows every kind of device.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cpu/parallel_for.h"
#include "device/device.h"
#include "device/driver_api.h"

namespace lssar {

enum class DeviceChoice { kAuto, kCuda, kVirtual, kRecord, kCpu };
Result<DeviceChoice> parse_device_choice(const std::string& name);

// kAuto takes the GPU if kernels can be made for it (8.0 and later), else the virtual device. A GPU
// or driver that fails is an error. An empty `target` is the device's own (virtual: sm_80; cpu: the
// highest level that the machine runs). Otherwise the virtual device takes that target's limits,
// and a GPU must be able to run it. Only the cpu device uses `parallel_for`. kMissing says what was
// tried.
Result<std::shared_ptr<Device>> open_device(DeviceChoice choice, const std::string& target = "",
                                            int ordinal = 0, const ParallelFor& parallel_for = {});

// The GPUs that the driver reports. kMissing without a driver.
Result<std::vector<DeviceInfo>> list_gpus();

// open_device() with a given CUDA driver, or the reason why there is none; tests pass fakes. kAuto
// falls back to the virtual device if the driver is kMissing (no driver, or no GPU) or the GPU is
// too old. Any other failure is returned, because a GPU is there and does not work.
Result<std::shared_ptr<Device>> open_device_on(
    const Result<std::shared_ptr<const CudaDriver>>& driver, DeviceChoice choice,
    const std::string& target, int ordinal, const ParallelFor& parallel_for = {});

}  // namespace lssar
