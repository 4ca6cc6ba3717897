#include "tools/lssar/sim/sim_run.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "virtual/state/units.h"

namespace lssar::command {
namespace {

// An error that is not the device's is one of the arguments. In both cases nothing ran.
Status could_not_run(const Status& status) {
  return status.code() == StatusCode::kDeviceError ? invalid_argument(status.message()) : status;
}

// Allocates memory for every argument that has some.
Result<std::vector<DevicePtr>> upload(Device& device, const std::vector<SimData>& data) {
  std::vector<DevicePtr> memory(data.size(), 0);
  for (size_t i = 0; i < data.size(); ++i) {
    if (!data[i].has_memory()) continue;
    LSSAR_ASSIGN_OR_RETURN(memory[i], device.allocate(data[i].bytes));
    if (data[i].argument.reads) {
      LSSAR_RETURN_IF_ERROR(
          device.copy_to_device(memory[i], data[i].initial.data(), data[i].bytes));
    } else if (memory[i] != 0) {
      // Not with the device's fill, which would count as initialising the memory.
      std::memset(reinterpret_cast<void*>(memory[i]), vdev::kPoisonByte, data[i].bytes);
    }
  }
  return memory;
}

// In the form that kernels read: aligned as a tensor map requires.
struct alignas(128) ParameterBlock {
  uint8_t bytes[4096];  // the most that PTX allows
};

Status fill_parameters(Device& device, const SimLaunch& launch, const SimPlacement& placement,
                       const std::vector<DevicePtr>& memory, ParameterBlock& parameters) {
  for (size_t i = 0; i < launch.data.size(); ++i) {
    const SimData& data = launch.data[i];
    uint8_t* place = parameters.bytes + placement.offsets[i];
    switch (data.argument.kind) {
      case SimArgumentKind::kScalar:
        std::memcpy(place, data.argument.scalar.data(), data.argument.scalar.size());
        break;
      case SimArgumentKind::kPointer:
        std::memcpy(place, &memory[i], sizeof(DevicePtr));
        break;
      case SimArgumentKind::kTensorMap: {
        const Result<TensorMap> map = device.encode_tensor_map(sim_tensor_map(data, memory[i]));
        if (!map.ok()) return map.status().with_context("--arg " + data.argument.text);
        std::memcpy(place, &*map, sizeof(TensorMap));
        break;
      }
      case SimArgumentKind::kStructBegin:
      case SimArgumentKind::kStructEnd:
        break;
    }
  }
  return {};
}

Status download(Device& device, const SimLaunch& launch, SimRun& run) {
  run.outputs.resize(launch.data.size());
  for (size_t i = 0; i < launch.data.size(); ++i) {
    if (!launch.data[i].argument.writes) continue;
    run.outputs[i].resize(launch.data[i].bytes);
    LSSAR_RETURN_IF_ERROR(
        device.copy_to_host(run.outputs[i].data(), run.memory[i], run.outputs[i].size()));
  }
  return {};
}

// A launch's message has its reports one after the other. A line that continues one is indented.
std::vector<std::string> split_reports(const std::string& message) {
  std::vector<std::string> reports;
  for (size_t begin = 0; begin <= message.size();) {
    const size_t end = std::min(message.find('\n', begin), message.size());
    const std::string line = message.substr(begin, end - begin);
    if (reports.empty() || line.empty() || line[0] != ' ') {
      reports.push_back(line);
    } else {
      reports.back() += "\n" + line;
    }
    begin = end + 1;
  }
  return reports;
}

Result<SimRun> run_on(Device& device, const SimLaunch& launch, uint64_t seed) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device.load(launch.image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* const function, module->function(launch.entry));
  LSSAR_ASSIGN_OR_RETURN(const SimPlacement placement, place_arguments(*function, launch.data));
  LSSAR_RETURN_IF_ERROR(device.prepare(*function, launch.config.shared_bytes));
  SimRun run;
  run.seed = seed;
  LSSAR_ASSIGN_OR_RETURN(run.memory, upload(device, launch.data));
  ParameterBlock parameters = {};
  LSSAR_RETURN_IF_ERROR(fill_parameters(device, launch, placement, run.memory, parameters));

  run.device_name = device.info().name;
  LSSAR_RETURN_IF_ERROR(device.timer_begin(nullptr));
  const Status status =
      device.launch(*function, launch.config, parameters.bytes, placement.bytes, nullptr);
  LSSAR_ASSIGN_OR_RETURN(run.ms, device.timer_end_ms(nullptr));
  // A refused launch has another code.
  if (!status.ok() && status.code() != StatusCode::kDeviceError) return status;
  if (!status.ok()) run.reports = split_reports(status.message());
  run.counters = {launch.entry, device.counters()};
  LSSAR_RETURN_IF_ERROR(download(device, launch, run));
  return run;
}

}  // namespace

Result<SimRun> run_sim(const SimLaunch& launch, uint64_t seed) {
  VirtualOptions options = launch.device;
  options.schedule_seed = seed;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  Result<SimRun> run = run_on(*device, launch, seed);
  return run.ok() ? std::move(run) : Result<SimRun>(could_not_run(run.status()));
}

}  // namespace lssar::command
