#include "device/record_device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "device/tensor_map_codec.h"

namespace lssar {
namespace {

constexpr size_t kAlignment = 256;

class RecordFunction final : public DeviceFunction {
 public:
  explicit RecordFunction(KernelResources resources) : resources_(std::move(resources)) {}
  KernelResources resources() const override { return resources_; }

 private:
  const KernelResources resources_;
};

// Has a function for every name; it does not read images.
class RecordModule final : public DeviceModule {
 public:
  explicit RecordModule(std::vector<KernelResources> resources)
      : resources_(std::move(resources)) {}

  Result<const DeviceFunction*> function(const std::string& entry) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<RecordFunction>& kept = functions_[entry];
    if (kept == nullptr) {
      KernelResources found;
      for (const KernelResources& kernel : resources_) {
        if (kernel.entry == entry) found = kernel;
      }
      found.entry = entry;
      kept = std::make_unique<RecordFunction>(std::move(found));
    }
    return kept.get();
  }

 private:
  const std::vector<KernelResources> resources_;
  mutable std::mutex mutex_;  // guards functions_
  mutable std::map<std::string, std::unique_ptr<RecordFunction>> functions_;
};

}  // namespace

RecordDevice::RecordDevice(const Target& target) {
  info_.kind = "record";
  info_.id = "record";
  info_.name = kRecordDeviceName;
  info_.target = target;
  info_.num_sms = 1;
}

Result<DevicePtr> RecordDevice::allocate(size_t bytes) {
  if (bytes == 0) return DevicePtr{0};
  if (bytes > SIZE_MAX - kAlignment) return out_of_memory(fmt::format("{} bytes", bytes));
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return out_of_memory(fmt::format("{} bytes", bytes));
  return static_cast<DevicePtr>(reinterpret_cast<uintptr_t>(memory));
}

Status RecordDevice::free(DevicePtr ptr) {
  std::free(reinterpret_cast<void*>(ptr));
  return {};
}

Status RecordDevice::copy_to_device(DevicePtr dst, const void* src, size_t bytes) {
  if (bytes != 0) std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  return {};
}

Status RecordDevice::copy_to_host(void* dst, DevicePtr src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
  return {};
}

Status RecordDevice::fill(DevicePtr dst, uint8_t byte, size_t bytes) {
  if (bytes != 0) std::memset(reinterpret_cast<void*>(dst), byte, bytes);
  return {};
}

Result<std::unique_ptr<DeviceModule>> RecordDevice::load(const Image& image) {
  return std::unique_ptr<DeviceModule>(std::make_unique<RecordModule>(image.resources));
}

Result<TensorMap> RecordDevice::encode_tensor_map(const TensorMapRequest& request) {
  LSSAR_RETURN_IF_ERROR(validate_tensor_map(request));
  num_tensor_maps_.fetch_add(1, std::memory_order_relaxed);
  return vdev::encode_tensor_map(request);
}

Status RecordDevice::launch(const DeviceFunction& function, const LaunchConfig& config,
                            const void* params, size_t params_bytes, Stream stream) {
  num_launches_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = {&function, config, params_bytes, stream};
  return {};
}

RecordedLaunch RecordDevice::last_launch() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (last_.function == nullptr) return {};
  return {last_.function->resources().entry, last_.config, last_.params_bytes, last_.stream};
}

}  // namespace lssar
