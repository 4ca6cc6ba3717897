// DeviceModel: the GPU or CPU that the cost model estimates for. Threads: plain values and pure
// functions, except for device_model.
#pragma once

#include <string>
#include <variant>

#include "autotune/model/cpu_model.h"
#include "autotune/model/gpu_model.h"
#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

using DeviceModel = std::variant<GpuModel, CpuModel>;

// Null if it is a GPU's, or a CPU's.
inline const CpuModel* cpu_of(const DeviceModel& model) { return std::get_if<CpuModel>(&model); }
inline const GpuModel* gpu_of(const DeviceModel& model) { return std::get_if<GpuModel>(&model); }

const std::string& model_name(const DeviceModel& model);
const std::string& model_target(const DeviceModel& model);
int model_units(const DeviceModel& model);  // SMs of a GPU, threads of a CPU
// "NVIDIA H200 with 132 SMs"; "..., 2 threads, 87.1 GFLOP/s each (measured)".
std::string model_text(const DeviceModel& model);

// For estimates of what the machine runs. If it is a CPU and its name is this machine's, rates are
// measured, which takes some 0.1 s once.
Result<DeviceModel> device_model(const Machine& machine);

// For choices that must be the same on every rank: of a CPU always the typical model.
Result<DeviceModel> common_device_model(const Machine& machine);

}  // namespace lssar
