// A compiler and a device that record what they are asked, to test the engine by itself.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compile/compiler.h"
#include "device/device.h"
#include "device/tensor_map_codec.h"
#include "templates/kernels/params.cuh"

namespace lssar {

class FakeCompiler : public Compiler {
 public:
  std::string name() const override { return "fake"; }
  std::string version() const override { return version_; }
  std::string path() const override { return "fake.so"; }
  bool can_make(ImageKind kind) const override { return makes_cubin_ || kind == ImageKind::kPtx; }
  std::vector<std::string> options(const CompileRequest& request) const override {
    return request.extra_options;
  }
  Result<Image> compile(const CompileRequest& request) const override {
    ++num_compiles_;
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
    if (fails_) return compile_error(request.name + ": refused");
    Image image;
    image.kind = request.kind;
    image.target = request.target.name();
    image.bytes = std::string("image\0of ", 9) + request.name;
    image.log = log_;
    image.resources.push_back({"lssar_forward", 168, 16, 0, 8, 12});
    return image;
  }

  std::string version_ = "1.0";
  std::string log_ = "a warning in \xFF bytes that are not UTF-8";
  bool makes_cubin_ = false;
  bool fails_ = false;
  int delay_ms_ = 0;
  mutable std::atomic<int> num_compiles_{0};
};

struct FakeLaunch {
  std::string entry;
  const DeviceFunction* function;
  LaunchConfig config;
  lssar_device::AttentionParams params;
  // The maps of a launch with TmaParams; empty for one with AttentionParams alone.
  std::vector<lssar_device::TensorMap> maps;
};

class FakeFunction : public DeviceFunction {
 public:
  explicit FakeFunction(std::string entry) : entry_(std::move(entry)) {}
  KernelResources resources() const override { return {entry_, 1, 2, 3, -1, -1}; }
  const std::string entry_;
};

class FakeModule : public DeviceModule {
 public:
  Result<const DeviceFunction*> function(const std::string& entry) const override {
    const std::lock_guard lock(mutex_);
    auto& function = functions_[entry];
    if (function == nullptr) function = std::make_unique<FakeFunction>(entry);
    return function.get();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<FakeFunction>> functions_;
};

class FakeDevice : public Device {
 public:
  FakeDevice() {
    info_.kind = "record";
    info_.name = "fake";
    info_.target = target_from_name("sm_80").value();
  }
  const DeviceInfo& info() const override { return info_; }
  ImageKind preferred_image() const override { return ImageKind::kCubin; }
  Result<DevicePtr> allocate(size_t) override { return out_of_memory("fake"); }
  Status free(DevicePtr) override { return {}; }
  Status copy_to_device(DevicePtr, const void*, size_t) override { return {}; }
  Status copy_to_host(void*, DevicePtr, size_t) override { return {}; }
  Status fill(DevicePtr, uint8_t, size_t) override { return {}; }
  Status import_range(DevicePtr ptr, size_t bytes) override {
    if (fails_import_at_ == ++num_imports_) return device_error("import refused");
    num_ranges_ += 1;
    imported_bytes_ += bytes;
    return {};
  }
  void release_range(DevicePtr ptr, size_t bytes) override { num_ranges_ -= 1; }
  Result<std::unique_ptr<DeviceModule>> load(const Image& image) override {
    const std::lock_guard lock(mutex_);
    loaded_.push_back(image);
    return std::unique_ptr<DeviceModule>(std::make_unique<FakeModule>());
  }
  // The virtual device's encoding: vdev::decode_tensor_map reads it.
  Result<TensorMap> encode_tensor_map(const TensorMapRequest& request) override {
    if (++num_maps_ == fails_map_at_) return device_error("map refused");
    LSSAR_RETURN_IF_ERROR(validate_tensor_map(request));
    return vdev::encode_tensor_map(request);
  }
  Status launch(const DeviceFunction& function, const LaunchConfig& config, const void* params,
                size_t params_bytes, Stream) override {
    FakeLaunch launch{static_cast<const FakeFunction&>(function).entry_, &function, config, {}, {}};
    if (params_bytes == sizeof(lssar_device::TmaParams)) {
      const auto* with_maps = static_cast<const lssar_device::TmaParams*>(params);
      launch.params = with_maps->attention;
      launch.maps.assign(std::begin(with_maps->maps), std::end(with_maps->maps));
    } else if (params_bytes == sizeof(launch.params)) {
      std::memcpy(&launch.params, params, params_bytes);
    } else {
      return device_error("size of the parameters");
    }
    ranges_at_launch_ = num_ranges_;
    launches_.push_back(launch);
    return {};
  }
  Status synchronize(Stream) override { return {}; }
  Status timer_begin(Stream) override { return {}; }
  Result<double> timer_end_ms(Stream) override { return 0.0; }

  DeviceInfo info_;
  std::mutex mutex_;
  std::vector<Image> loaded_;
  std::vector<FakeLaunch> launches_;
  int num_ranges_ = 0, num_imports_ = 0, ranges_at_launch_ = 0, fails_import_at_ = 0;
  int num_maps_ = 0, fails_map_at_ = 0;
  size_t imported_bytes_ = 0;
};

}  // namespace lssar
