// The record device: accepts everything, runs nothing, remembers the last launch. Host overhead is
// measured on it, and calls are tested with it. Its memory is the host's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace lssar {

inline constexpr const char* kRecordDeviceName = "recording device (runs nothing)";

struct RecordedLaunch {
  std::string entry;
  LaunchConfig config;
  size_t params_bytes = 0;
  Stream stream = nullptr;
};

class RecordDevice final : public Device {
 public:
  explicit RecordDevice(const Target& target);

  uint64_t num_launches() const { return num_launches_.load(); }
  uint64_t num_tensor_maps() const { return num_tensor_maps_.load(); }
  // The last launch of any thread; empty before the first. REQUIRES: that launch's module still
  // exists.
  RecordedLaunch last_launch() const;

  const DeviceInfo& info() const override { return info_; }
  ImageKind preferred_image() const override { return ImageKind::kPtx; }
  Result<DevicePtr> allocate(size_t bytes) override;
  Status free(DevicePtr ptr) override;
  Status copy_to_device(DevicePtr dst, const void* src, size_t bytes) override;
  Status copy_to_host(void* dst, DevicePtr src, size_t bytes) override;
  Status fill(DevicePtr dst, uint8_t byte, size_t bytes) override;
  Result<std::unique_ptr<DeviceModule>> load(const Image& image) override;
  // Counts the call. The bytes are the virtual device's (vdev::decode_tensor_map reads them).
  Result<TensorMap> encode_tensor_map(const TensorMapRequest& request) override;
  Status launch(const DeviceFunction& function, const LaunchConfig& config, const void* params,
                size_t params_bytes, Stream stream) override;
  Status synchronize(Stream stream) override { return {}; }
  // Nothing runs, so a sample takes no time.
  Status timer_begin(Stream stream) override { return {}; }
  Result<double> timer_end_ms(Stream stream) override { return 0.0; }

 private:
  // A launch as it was called. The function's name is copied when someone asks for it.
  struct Launch {
    const DeviceFunction* function = nullptr;
    LaunchConfig config;
    size_t params_bytes = 0;
    Stream stream = nullptr;
  };

  DeviceInfo info_;
  std::atomic<uint64_t> num_launches_{0};
  std::atomic<uint64_t> num_tensor_maps_{0};
  mutable std::mutex mutex_;  // guards last_
  Launch last_;
};

}  // namespace lssar
