// open_device with the CUDA driver, or why there is none, given. Private to runtime/device.cpp and
// its tests, which give fakes.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/device.h"

namespace lssar {

// kAuto: kMissing of the driver (none, or no GPU) and a GPU that is too old mean the virtual
// device; every other failure is a GPU that does not work as asked, and returned.
Result<std::shared_ptr<Device>> open_device_on(
    const Result<std::shared_ptr<const CudaDriver>>& driver, DeviceChoice choice,
    const std::string& target, int ordinal);

}  // namespace lssar
