// Which device a call runs on, and how it is opened: the one place that knows every kind of device.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/driver_api.h"

namespace lssar {

enum class DeviceChoice { kAuto, kCuda, kVirtual, kRecord, kCpu };
Result<DeviceChoice> parse_device_choice(const std::string& name);

// kAuto takes the GPU, or the virtual device where there is none that kernels can be made for (8.0
// and later); a GPU or driver that fails is an error. `target` empty: the device's own (virtual:
// sm_80; cpu: the highest level that the machine runs); else the virtual device takes that target's limits and a GPU must be able to run it.
// kMissing says what was tried.
Result<std::shared_ptr<Device>> open_device(DeviceChoice choice, const std::string& target = "",
                                            int ordinal = 0);

// GPUs the driver reports; kMissing without a driver.
Result<std::vector<DeviceInfo>> list_gpus();

// open_device() with the CUDA driver, or the reason why there is none, given: tests give fakes.
// kAuto: kMissing of the driver (none, or no GPU) and a GPU that is too old mean the virtual
// device; every other failure is a GPU that does not work as asked, and returned.
Result<std::shared_ptr<Device>> open_device_on(
    const Result<std::shared_ptr<const CudaDriver>>& driver, DeviceChoice choice,
    const std::string& target, int ordinal);

}  // namespace lssar
