// Device memory for the tensors of a call, by name, with the strides of the call.
//
// Used by attention_run.cpp and `lssar replay`. Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"
#include "runtime/call.h"
#include "runtime/operands.h"

namespace lssar::command {

// Device memory that is freed with its owner. An error of free is dropped, because nobody could
// handle it.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> allocate(std::shared_ptr<Device> device, size_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  DevicePtr ptr() const { return ptr_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(std::shared_ptr<Device> device, DevicePtr ptr, size_t bytes)
      : device_(std::move(device)), ptr_(ptr), bytes_(bytes) {}

  std::shared_ptr<Device> device_;
  DevicePtr ptr_ = 0;
  size_t bytes_ = 0;
};

class CallMemory {
 public:
  explicit CallMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Allocates memory for each operand whose name has none yet. Keeps the operand's offset from a
  // multiple of 256 bytes.
  Status add(const Operands& operands);

  bool has(const std::string& name) const { return operands_.count(name) != 0; }
  // REQUIRES: has(name). Packed as in tensor_copy.h.
  Status upload(const std::string& name, const std::string& packed);
  Result<std::string> download(const std::string& name) const;

  // null for tensors that do not exist
  const Tensors& tensors() const { return tensors_; }

 private:
  std::shared_ptr<Device> device_;
  std::map<std::string, Operand> operands_;  // with their memory
  std::map<std::string, DeviceBuffer> buffers_;
  Tensors tensors_;
};

// The tensors of a call without gaps; their addresses are 0.
Tensors contiguous_layout(const Problem& problem, const Sizes& sizes);

}  // namespace lssar::command
