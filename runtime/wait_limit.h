// LSSAR_DEBUG_WAITS: kernels whose waits have a limit, and what they say when one is reached.
//
// Used by the engine for kernels it generates itself (not for a tuner's candidates). Kernels write
// about their waits into memory that outlives a trap: see templates/ptx/wait_limit_on.cuh.
//
// Threads: a WaitMonitor may be used from any number of threads; texts of calls that run at once
// may then be about each other's waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/target.h"
#include "device/device.h"

namespace lssar {

// LSSAR_DEBUG_WAITS: how many polls a wait may take; 0 where it is not set. kInvalidArgument names
// what is allowed.
Result<uint64_t> wait_spins_from_environment();

// The compiler's option. REQUIRES: spins > 0.
std::string wait_spins_option(uint64_t spins);
// The source with templates/ptx/wait_limit_on.cuh behind its header; lines keep their numbers. The
// same source where it waits for nothing, or holds the limit itself, as older ones do.
std::string with_wait_limit(const std::string& source);
// Shared memory for the watch over cluster barriers. kUnsupported where the target has no more.
Status add_cluster_watch(const Target& target, KernelSource* kernel);

class WaitMonitor {
 public:
  // Null where no kernel of the module waits. `device` and `module` must outlive it.
  static Result<std::unique_ptr<WaitMonitor>> create(Device& device, const DeviceModule& module);
  ~WaitMonitor();

  // Before a call. kUnsupported on a stream that is captured into a graph, which cannot be waited
  // for.
  Status begin(Stream stream) const;
  // After its launches, whose status is given: waits for them. An error has a line for each wait
  // that was at half its limit, with the line of `source`.
  Status end(Status status, const KernelSource& source, Stream stream) const;

 private:
  WaitMonitor(Device& device, Device::HostMemory memory) : device_(device), memory_(memory) {}

  Device& device_;
  const Device::HostMemory memory_;
};

}  // namespace lssar
