#include "device/device.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_features.h"
#include "device/cuda_device.h"
#include "device/driver_api.h"
#include "device/record_device.h"
#include "runtime/open_device.h"
#include "virtual/run/virtual_device.h"

namespace lssar {
namespace {

constexpr const char* kDefaultTarget = "sm_80";  // for devices without hardware

using DriverResult = Result<std::shared_ptr<const CudaDriver>>;

Result<std::shared_ptr<Device>> open_cuda(const DriverResult& driver, const std::string& target,
                                          int ordinal) {
  if (!driver.ok()) return driver.status();
  return make_cuda_device(driver.value(), ordinal, target);
}

// The target of a GPU, for devices that have no hardware.
Result<Target> target_or_default(const std::string& name, const char* device) {
  LSSAR_ASSIGN_OR_RETURN(const Target target,
                         target_from_name(name.empty() ? kDefaultTarget : name));
  if (!target.is_cpu()) return target;
  return invalid_argument(
      fmt::format("target = \"{}\": with device = {} allowed are targets of GPUs; device cpu has "
                  "this one",
                  name, device));
}

Result<std::shared_ptr<Device>> open_cpu(const std::string& name, const ParallelFor& parallel_for) {
  LSSAR_ASSIGN_OR_RETURN(const Target target, cpu_target_for(name, cpu_features()));
  return make_cpu_device(target, {.parallel_for = parallel_for});
}

Result<std::shared_ptr<Device>> open_virtual(const std::string& target) {
  VirtualOptions options;
  LSSAR_ASSIGN_OR_RETURN(options.target, target_or_default(target, "virtual"));
  return make_virtual_device(options);
}

Result<std::shared_ptr<Device>> open_record(const std::string& name) {
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_or_default(name, "record"));
  return std::shared_ptr<Device>(std::make_shared<RecordDevice>(target));
}

Result<std::shared_ptr<Device>> open_auto(const DriverResult& driver, const std::string& target,
                                          int ordinal) {
  Result<std::shared_ptr<Device>> gpu = open_cuda(driver, target, ordinal);
  if (gpu.ok()) return gpu;
  // A missing GPU, or one that is too old, is not an error. A GPU that cannot be used as asked is.
  const StatusCode code = gpu.status().code();
  if (code != StatusCode::kMissing && code != StatusCode::kUnsupported) return gpu;
  // Somebody who has a GPU wants to know why it is not used.
  const LogLevel level = code == StatusCode::kMissing ? LogLevel::kInfo : LogLevel::kWarning;
  log(level, "the virtual device is used: " + gpu.status().message());
  return open_virtual(target);
}

}  // namespace

Result<DeviceChoice> parse_device_choice(const std::string& name) {
  if (name == "auto") return DeviceChoice::kAuto;
  if (name == "cuda") return DeviceChoice::kCuda;
  if (name == "virtual") return DeviceChoice::kVirtual;
  if (name == "cpu") return DeviceChoice::kCpu;
  if (name == "record") return DeviceChoice::kRecord;
  return invalid_argument(
      fmt::format("device = {}: allowed are auto, cuda, cpu, virtual, record", name));
}

Result<std::shared_ptr<Device>> open_device_on(const DriverResult& driver, DeviceChoice choice,
                                               const std::string& target, int ordinal,
                                               const ParallelFor& parallel_for) {
  switch (choice) {
    case DeviceChoice::kAuto:
      return open_auto(driver, target, ordinal);
    case DeviceChoice::kCuda:
      return open_cuda(driver, target, ordinal);
    case DeviceChoice::kVirtual:
      return open_virtual(target);
    case DeviceChoice::kCpu:
      return open_cpu(target, parallel_for);
    case DeviceChoice::kRecord:
      return open_record(target);
  }
  return invalid_argument(fmt::format("device = {}: not a DeviceChoice", static_cast<int>(choice)));
}

Result<std::shared_ptr<Device>> open_device(DeviceChoice choice, const std::string& target,
                                            int ordinal, const ParallelFor& parallel_for) {
  const bool needs_driver = choice == DeviceChoice::kAuto || choice == DeviceChoice::kCuda;
  return open_device_on(needs_driver ? open_cuda_driver() : missing("the driver was not opened"),
                        choice, target, ordinal, parallel_for);
}

Result<std::vector<DeviceInfo>> list_gpus() {
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaDriver> driver, open_cuda_driver());
  return list_cuda_devices(*driver);
}

}  // namespace lssar
