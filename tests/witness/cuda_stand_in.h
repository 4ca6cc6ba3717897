// A CUDA runtime without a GPU, as far as the witness programs need one: what they register when
// they are opened, and their calls, go to a virtual device that the test chooses.
// cuda_runtime_calls.cpp has the calls themselves.
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

  // Memory and launches are this device's from now on; null gives up the device and what was loaded
  // on it. The programs' memory is theirs to free before.
  void use(std::shared_ptr<Device> device);
  // REQUIRES: one is in use.
  Device& device() const { return *device_; }

  // The PTX of the module that a program registered this entry with; "" if none did.
  std::string module_of(const std::string& entry) const;
  // From now on the launches of `entry` take this text's, a module of its own; "": what was
  // registered, again.
  void replace(const std::string& entry, const std::string& text);
  // The entries that were launched since the device came into use, one for each launch.
  const std::vector<std::string>& launched() const { return launched_; }

  // What failed first since the last call, "" if nothing did.
  std::string take_failure();

  // For the calls.
  void** add_module(std::string text);
  void remove_module(void** module);
  void add_kernel(void** module, const void* host_function, const std::string& entry);
  Status prepare(const void* host_function, uint32_t max_shared_bytes);
  Status launch(const void* host_function, const LaunchConfig& config, void** arguments);
  // Keeps the text of a failure; true: it was none.
  bool note(const Status& status);

 private:
  struct Registered {
    std::string text;
    std::map<const void*, std::string> entries;  // by host function
    std::unique_ptr<DeviceModule> loaded;        // on device_, when first needed
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
