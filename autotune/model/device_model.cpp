#include "autotune/model/device_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/cpu/cpu_features.h"
#include "device/record_device.h"

namespace lssar {
namespace {

Result<DeviceModel> model_of(const Machine& machine, bool may_measure) {
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(machine.target));
  if (!target.is_cpu()) {
    // The recording device runs nothing, so its count is no GPU's.
    const int num_sms = machine.device == kRecordDeviceName ? 0 : machine.num_sms;
    LSSAR_ASSIGN_OR_RETURN(GpuModel gpu, gpu_model(machine.target, machine.device, num_sms));
    return DeviceModel(std::move(gpu));
  }
  const int num_threads = std::max(machine.num_sms, 1);
  if (may_measure && machine.device == cpu_features().name)
    return DeviceModel(measured_cpu_model(target, num_threads));
  return DeviceModel(typical_cpu_model(target, machine.device, num_threads));
}

}  // namespace

const std::string& model_name(const DeviceModel& model) {
  return std::visit([](const auto& one) -> const std::string& { return one.name; }, model);
}

const std::string& model_target(const DeviceModel& model) {
  return std::visit([](const auto& one) -> const std::string& { return one.target; }, model);
}

int model_units(const DeviceModel& model) {
  const CpuModel* const cpu = cpu_of(model);
  return cpu != nullptr ? cpu->num_threads : gpu_of(model)->num_sms;
}

std::string model_text(const DeviceModel& model) {
  const CpuModel* const cpu = cpu_of(model);
  if (cpu == nullptr)
    return fmt::format("{} with {} SMs", model_name(model), gpu_of(model)->num_sms);
  std::string origin = cpu->is_measured ? "measured" : "assumed";
  if (!cpu->scaled_from.empty()) origin = "scaled from " + cpu->scaled_from + ", measured";
  return fmt::format("{}, {} threads, {:.1f} GFLOP/s each ({})", cpu->name, cpu->num_threads,
                     cpu->rates.fma_gflops, origin);
}

Result<DeviceModel> device_model(const Machine& machine) { return model_of(machine, true); }

Result<DeviceModel> common_device_model(const Machine& machine) { return model_of(machine, false); }

}  // namespace lssar
