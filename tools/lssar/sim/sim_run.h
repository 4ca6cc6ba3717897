// One launch of `lssar sim` on a fresh virtual device.
//
// Threads: every call has a device of its own.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "tools/lssar/sim/sim_data.h"
#include "virtual/run/virtual_device.h"

namespace lssar::command {

struct SimLaunch {
  Image image;
  std::string entry;
  LaunchConfig config;
  std::vector<SimData> data;
  VirtualOptions device;  // each run sets its own seed
};

struct SimRun {
  uint64_t seed = 0;
  std::string device_name;
  double ms = 0;
  KernelCounters counters;
  std::vector<std::string> reports;  // what the device found
  std::vector<DevicePtr> memory;     // by argument: the address; 0 without memory
  // By argument; empty for those that are not outputs.
  std::vector<std::vector<std::byte>> outputs;
};

// An error means that it could not run. `reports` has what the device found while it ran.
Result<SimRun> run_sim(const SimLaunch& launch, uint64_t seed);

}  // namespace lssar::command
