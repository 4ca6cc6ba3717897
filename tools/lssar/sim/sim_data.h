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

// An argument before every launch.
struct SimData {
  SimArgument argument;
  std::vector<int64_t> shape;      // of pointers and tensor maps
  std::vector<std::byte> initial;  // of arguments that are read; other memory is filled with poison
  size_t bytes = 0;                // of their memory

  bool has_memory() const {
    return argument.kind == SimArgumentKind::kPointer ||
           argument.kind == SimArgumentKind::kTensorMap;
  }
};

// Reads the files. Errors: those of base/npy.h. kInvalidArgument names the argument: its DTYPE
// cannot hold a value, a struct has no end, two arguments write one file.
Result<std::vector<SimData>> load_sim_data(const std::vector<std::string>& texts);

// The tensor map of a kTensorMap argument whose memory is at `address`.
TensorMapRequest sim_tensor_map(const SimData& data, DevicePtr address);

// Where each argument's value goes in a kernel's parameters.
struct SimPlacement {
  std::vector<size_t> offsets;  // by argument; unused for { and }
  size_t bytes = 0;
};

// REQUIRES: `function` is a virtual device's. kInvalidArgument: number or sizes of the arguments
// are not the kernel's; the message lists its parameters.
Result<SimPlacement> place_arguments(const DeviceFunction& function,
                                     const std::vector<SimData>& data);

}  // namespace lssar::command
