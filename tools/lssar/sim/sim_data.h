// The arguments of `lssar sim` with their data, and where each goes in a kernel's parameters.
//
// Threads: pure functions, but for the files they read.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "tools/lssar/sim/sim_arguments.h"

namespace lssar::command {

// An argument as it is before every launch.
struct SimData {
  SimArgument argument;
  std::vector<int64_t> shape;      // of pointers and tensor maps
  std::vector<std::byte> initial;  // of those that read; else the memory is poison
  size_t bytes = 0;                // of their memory

  bool has_memory() const {
    return argument.kind == SimArgumentKind::kPointer ||
           argument.kind == SimArgumentKind::kTensorMap;
  }
};

// Reads the files. Errors of base/npy.h; kInvalidArgument names the argument: a value that its
// DTYPE does not hold, a struct without its end, two arguments that write one file.
Result<std::vector<SimData>> load_sim_data(const std::vector<std::string>& texts);

// The tensor map of a kTensorMap argument whose memory is at `address`.
TensorMapRequest sim_tensor_map(const SimData& data, DevicePtr address);

// Where in a kernel's parameters the value of each argument goes.
struct SimPlacement {
  std::vector<size_t> offsets;  // by argument; those of { and } mean nothing
  size_t bytes = 0;
};

// `function` is a virtual device's. kInvalidArgument, where number or sizes of the arguments are
// not the kernel's, lists its parameters.
Result<SimPlacement> place_arguments(const DeviceFunction& function,
                                     const std::vector<SimData>& data);

}  // namespace lssar::command
