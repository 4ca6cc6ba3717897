// LSSAR_DEBUG_WAITS: limits how long kernels wait, and reports the waits that reach the limit.
//
// Used by the engine for kernels that it generates (not for a tuner's candidates). Kernels record
// their waits in memory that outlives a trap: see templates/ptx/wait_limit_on.cuh.
//
// Threads: any number may use a WaitMonitor. If calls run at once, an error of one may describe
// another's waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/target.h"
#include "device/device.h"

namespace lssar {

// LSSAR_DEBUG_WAITS: how many polls a wait may take, or 0 if it is not set. kInvalidArgument names
// what is allowed.
Result<uint64_t> wait_spins_from_environment();

// The compiler option that sets the limit. REQUIRES: spins > 0.
std::string wait_spins_option(uint64_t spins);
// Inserts templates/ptx/wait_limit_on.cuh after the header; lines keep their numbers. Returns the
// source unchanged if it never waits, or if it already has the limit, as sources of older versions
// do.
std::string with_wait_limit(const std::string& source);
// Adds shared memory to watch cluster barriers. kUnsupported if the target has no room for it.
Status add_cluster_watch(const Target& target, KernelSource* kernel);

class WaitMonitor {
 public:
  // Null if no kernel of the module waits. `device` and `module` must outlive the monitor.
  static Result<std::unique_ptr<WaitMonitor>> create(Device& device, const DeviceModule& module);
  ~WaitMonitor();

  // Call it before the launches. kUnsupported if the stream is captured into a graph, because such
  // a stream cannot be waited for.
  Status begin(Stream stream) const;
  // Call it after the launches, with their status: waits for them. An error has a line for each
  // wait that passed half its limit, with the text of that line of `source`.
  Status end(Status status, const KernelSource& source, Stream stream) const;

 private:
  WaitMonitor(Device& device, Device::HostMemory memory) : device_(device), memory_(memory) {}

  Device& device_;
  const Device::HostMemory memory_;
};

}  // namespace lssar
