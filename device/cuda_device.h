// The cuda device: a GPU through the CUDA driver. Opened by runtime/open_device.cpp; tests open it
// on a driver of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/target.h"
#include "device/device.h"
#include "device/driver_api.h"

namespace lssar {

// `target` empty: the one that the GPU runs best. kInvalidArgument: the driver does not have the
// ordinal, or the GPU cannot run the target. kUnsupported: a GPU below compute capability 8.0.
Result<std::shared_ptr<Device>> make_cuda_device(std::shared_ptr<const CudaDriver> driver,
                                                 int ordinal, const std::string& target);

// Every GPU that the driver reports, each with the target that it runs best. GPUs below 8.0 have
// none; theirs is their capability.
Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriver& driver);

// How a GPU of capability major.minor runs code for `target`.
enum class TargetFit {
  kNative,  // takes a cubin
  kPtx,     // the driver has to assemble PTX
  kNone,
};
TargetFit target_fit(const Target& target, int major, int minor);

}  // namespace lssar
