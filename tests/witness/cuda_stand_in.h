// A CUDA runtime without a GPU, as far as the witness programs need one. What they register when
// they are opened, and their calls, go to a virtual device that the test chooses.
// cuda_runtime_calls.cpp has the calls.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace lssar::test {

class CudaStandIn {
 public:
  static CudaStandIn& instance();

  // From now on memory and launches are this device's. Null releases the device and what was loaded
  // on it. The programs must free their memory before.
  void use(std::shared_ptr<Device> device);
  // REQUIRES: a device is in use.
  Device& device() const { return *device_; }

  // The PTX of the module that a program registered this entry with; "" if none did.
  std::string module_of(const std::string& entry) const;
  // From now on launches of `entry` use this text, which is a module of its own. "": the registered
  // text again.
  void replace(const std::string& entry, const std::string& text);
  // The entries launched since the device came into use, one per launch.
  const std::vector<std::string>& launched() const { return launched_; }

  // The first failure since the last call; "" if there was none.
  std::string take_failure();

  // For the calls.
  void** add_module(std::string text);
  void remove_module(void** module);
  void add_kernel(void** module, const void* host_function, const std::string& entry);
  Status prepare(const void* host_function, uint32_t max_shared_bytes);
  Status launch(const void* host_function, const LaunchConfig& config, void** arguments);
  // Keeps the text of a failure. Returns whether the status was OK.
  bool note(const Status& status);

 private:
  struct Registered {
    std::string text;
    std::map<const void*, std::string> entries;  // by host function
    std::unique_ptr<DeviceModule> loaded;        // on device_; loaded at the first need
  };
  Result<const DeviceFunction*> function(const void* host_function);
  Result<std::unique_ptr<DeviceModule>> load(const std::string& text);

  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Registered>> modules_;
  std::string replaced_entry_, replaced_text_;
  std::unique_ptr<DeviceModule> replaced_;
  std::vector<std::string> launched_;
  std::string failure_;
};

}  // namespace lssar::test
