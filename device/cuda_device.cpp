#include "device/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_context.h"
#include "device/cuda_module.h"
#include "device/graph_streams.h"
#include "device/launch_timer.h"

namespace lssar {
namespace {

bool has_clusters(const LaunchConfig& config) {
  return config.cluster[0] != 1 || config.cluster[1] != 1 || config.cluster[2] != 1;
}

std::string describe(const char* entry, const LaunchConfig& config) {
  std::string text =
      fmt::format("{} grid ({}, {}, {}) block ({}, {}, {}) dynamic shared {} bytes", entry,
                  config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1],
                  config.block[2], config.shared_bytes);
  if (has_clusters(config)) {
    text += fmt::format(" cluster ({}, {}, {})", config.cluster[0], config.cluster[1],
                        config.cluster[2]);
  }
  return text;
}

// A launch's configuration in the driver's form.
struct ClusterLaunch {
  ClusterLaunch(const LaunchConfig& of, CuStream stream) {
    attribute.id = kCuLaunchCluster;
    for (size_t i = 0; i < 3; ++i) {
      config.grid[i] = of.grid[i];
      config.block[i] = of.block[i];
      attribute.cluster[i] = of.cluster[i];
    }
    config.shared_bytes = of.shared_bytes;
    config.stream = stream;
    config.attributes = &attribute;
    config.num_attributes = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  CuLaunchAttribute attribute = {};
  CuLaunchConfig config = {};
};

class CudaDevice final : public Device, public GraphStreams {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, DeviceInfo info, ImageKind preferred_image)
      : context_(std::move(context)),
        driver_(context_->driver()),
        info_(std::move(info)),
        preferred_image_(preferred_image) {}
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  ImageKind preferred_image() const override { return preferred_image_; }

  Result<DevicePtr> allocate(size_t bytes) override;
  Status free(DevicePtr ptr) override;
  Status copy_to_device(DevicePtr dst, const void* src, size_t bytes) override;
  Status copy_to_host(void* dst, DevicePtr src, size_t bytes) override;
  Status fill(DevicePtr dst, uint8_t byte, size_t bytes) override;

  Result<HostMemory> allocate_host(size_t bytes) override;
  Status free_host(const HostMemory& memory) override;

  Result<std::unique_ptr<DeviceModule>> load(const Image& image) override {
    return CudaModule::load(context_, image);
  }
  Status prepare(const DeviceFunction& function, uint32_t max_shared_bytes) override;
  Result<int> resident_clusters(const DeviceFunction& function,
                                const LaunchConfig& config) override;
  Result<TensorMap> encode_tensor_map(const TensorMapRequest& request) override;
  Status launch(const DeviceFunction& function, const LaunchConfig& config, const void* params,
                size_t params_bytes, Stream stream) override;
  Status synchronize(Stream stream) override;
  Result<bool> is_capturing(Stream stream) override;
  Status timer_begin(Stream stream) override;
  Result<double> timer_end_ms(Stream stream) override;
  Status enqueue_fill(DevicePtr dst, uint8_t byte, size_t bytes, Stream stream) override;
  Result<std::unique_ptr<LaunchTimer>> make_launch_timer(size_t num_samples) override {
    return CudaLaunchTimer::create(context_, num_samples);
  }

 private:
  struct Events {
    CuEvent begin = nullptr;
    CuEvent end = nullptr;
    bool running = false;
  };
  // Its size is fixed, because a launch allocates nothing.
  struct LastLaunch {
    char entry[64] = "";
    LaunchConfig config;
  };

  // Waits for what a copy or fill left on the default stream, so that launches on other streams see
  // it.
  Status finish_default_stream() {
    return context_->status(driver_.stream_synchronize(nullptr), "cuStreamSynchronize");
  }
  Status create_events(Events* events);
  std::string last_launch_text();

  const std::shared_ptr<CudaContext> context_;
  const CudaDriver& driver_;
  const DeviceInfo info_;
  const ImageKind preferred_image_;

  std::mutex prepare_mutex_;  // one at a time reads and raises a function's limit
  std::mutex launch_mutex_;   // guards last_launch_
  LastLaunch last_launch_;
  std::mutex timer_mutex_;  // guards timers_
  std::map<Stream, Events> timers_;
};

CudaDevice::~CudaDevice() {
  const CudaContext::Current current(*context_);
  if (!current.status().ok()) return;
  for (const auto& [stream, events] : timers_) {
    if (events.begin != nullptr) (void)driver_.event_destroy(events.begin);
    if (events.end != nullptr) (void)driver_.event_destroy(events.end);
  }
}

Result<DevicePtr> CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) return DevicePtr{0};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  CuDevicePtr ptr = 0;
  LSSAR_RETURN_IF_ERROR(context_->status(driver_.allocate(&ptr, bytes), "cuMemAlloc",
                                         fmt::format("{} bytes on {}", bytes, info_.name)));
  return DevicePtr{ptr};
}

Status CudaDevice::free(DevicePtr ptr) {
  if (ptr == 0) return {};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  return context_->status(driver_.free(ptr), "cuMemFree", fmt::format("pointer {:#x}", ptr));
}

Status CudaDevice::copy_to_device(DevicePtr dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  LSSAR_RETURN_IF_ERROR(context_->status(driver_.copy_to_device(dst, src, bytes), "cuMemcpyHtoD",
                                         fmt::format("{} bytes to {:#x}", bytes, dst)));
  return finish_default_stream();
}

Status CudaDevice::copy_to_host(void* dst, DevicePtr src, size_t bytes) {
  if (bytes == 0) return {};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  return context_->status(
      driver_.copy_to_host(dst, src, bytes), "cuMemcpyDtoH",
      fmt::format("{} bytes from {:#x}; last launch: {}", bytes, src, last_launch_text()));
}

Status CudaDevice::fill(DevicePtr dst, uint8_t byte, size_t bytes) {
  if (bytes == 0) return {};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  LSSAR_RETURN_IF_ERROR(context_->status(driver_.fill(dst, byte, bytes), "cuMemsetD8",
                                         fmt::format("{} bytes at {:#x}", bytes, dst)));
  return finish_default_stream();
}

Status CudaDevice::enqueue_fill(DevicePtr dst, uint8_t byte, size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  return context_->status(driver_.fill_async(dst, byte, bytes, stream), "cuMemsetD8Async",
                          fmt::format("{} bytes at {:#x}", bytes, dst));
}

Result<Device::HostMemory> CudaDevice::allocate_host(size_t bytes) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  HostMemory memory;
  LSSAR_RETURN_IF_ERROR(
      context_->status(driver_.allocate_host(&memory.host, bytes, kCuHostPortable | kCuHostMapped),
                       "cuMemHostAlloc", fmt::format("{} bytes", bytes)));
  const Status mapped = context_->status(
      driver_.host_device_pointer(&memory.device, memory.host, 0), "cuMemHostGetDevicePointer");
  if (mapped.ok()) return memory;
  (void)driver_.free_host(memory.host);
  return mapped;
}

Status CudaDevice::free_host(const HostMemory& memory) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  return context_->status(driver_.free_host(memory.host), "cuMemFreeHost");
}

Status CudaDevice::prepare(const DeviceFunction& function, uint32_t max_shared_bytes) {
  const auto& kernel = static_cast<const CudaFunction&>(function);
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const std::lock_guard<std::mutex> lock(prepare_mutex_);
  // The limit is only raised, because plans of other sizes may share the function.
  int allowed = 0;
  LSSAR_RETURN_IF_ERROR(context_->status(
      driver_.function_attribute(&allowed, kCuFunctionMaxDynamicShared, kernel.handle()),
      "cuFuncGetAttribute", "entry " + kernel.entry()));
  if (max_shared_bytes <= static_cast<uint32_t>(std::max(allowed, 0))) return {};
  return context_->status(
      driver_.set_function_attribute(kernel.handle(), kCuFunctionMaxDynamicShared,
                                     static_cast<int>(max_shared_bytes)),
      "cuFuncSetAttribute",
      fmt::format("entry {}: dynamic shared {} bytes; static {} and dynamic together may be {} on "
                  "{}",
                  kernel.entry(), max_shared_bytes, kernel.resources().shared_bytes,
                  info_.target.shared_bytes_per_block, info_.name));
}

Result<int> CudaDevice::resident_clusters(const DeviceFunction& function,
                                          const LaunchConfig& config) {
  if (driver_.max_active_clusters == nullptr) return 0;
  const auto& kernel = static_cast<const CudaFunction&>(function);
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const ClusterLaunch launch(config, nullptr);
  int clusters = 0;
  LSSAR_RETURN_IF_ERROR(context_->status(
      driver_.max_active_clusters(&clusters, kernel.handle(), &launch.config),
      "cuOccupancyMaxActiveClusters",
      fmt::format("{}, on {}", describe(kernel.entry().c_str(), config), info_.name)));
  if (clusters == 0) {
    return device_error(fmt::format("{}: {} has no room for one such cluster",
                                    describe(kernel.entry().c_str(), config), info_.name));
  }
  return clusters;
}

Result<TensorMap> CudaDevice::encode_tensor_map(const TensorMapRequest& request) {
  LSSAR_RETURN_IF_ERROR(validate_tensor_map(request));
  if (driver_.encode_tiled == nullptr) {
    return unsupported(fmt::format("tensor maps: the driver is of {}: CUDA 12.0 or later is needed",
                                   info_.driver));
  }
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  TensorMap map;
  const CuResult result = driver_.encode_tiled(
      map.bytes, static_cast<unsigned>(request.type), request.rank,
      reinterpret_cast<void*>(request.global_address), request.global_dims, request.global_strides,
      request.box_dims, request.element_strides, static_cast<unsigned>(request.interleave),
      static_cast<unsigned>(request.swizzle), static_cast<unsigned>(request.l2_promotion),
      static_cast<unsigned>(request.fill));
  if (result != kCuSuccess) {
    return context_->status(result, "cuTensorMapEncodeTiled",
                            fmt::format("{}, on {}", describe_tensor_map(request), info_.name));
  }
  return map;
}

Status CudaDevice::launch(const DeviceFunction& function, const LaunchConfig& config,
                          const void* params, size_t params_bytes, Stream stream) {
  const auto& kernel = static_cast<const CudaFunction&>(function);
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  // The driver copies as many bytes as the kernel takes, however many there are.
  if (kernel.params_bytes().value_or(params_bytes) != params_bytes) {
    return internal_error(fmt::format("{}: {} bytes of parameters; the kernel takes {}",
                                      describe(kernel.entry().c_str(), config), params_bytes,
                                      *kernel.params_bytes()));
  }
  // NOTE: not the driver's `extra` with a block of parameters. On sm_90 a parameter that is aligned
  // to 64 bytes, as tensor maps are, does not begin where that block does.
  void* pointers[] = {const_cast<void*>(params)};
  const bool clusters = has_clusters(config);
  if (clusters && driver_.launch_extended == nullptr) {
    return unsupported(
        fmt::format("{}: this CUDA driver launches no clusters, which needs CUDA 11.8 or later",
                    describe(kernel.entry().c_str(), config)));
  }
  const ClusterLaunch extended(config, stream);
  const CuResult result =
      clusters ? driver_.launch_extended(&extended.config, kernel.handle(), pointers, nullptr)
               : driver_.launch(kernel.handle(), config.grid[0], config.grid[1], config.grid[2],
                                config.block[0], config.block[1], config.block[2],
                                config.shared_bytes, stream, pointers, nullptr);
  if (result != kCuSuccess) {
    return context_->status(
        result, clusters ? "cuLaunchKernelEx" : "cuLaunchKernel",
        fmt::format("{}, {} bytes of parameters, on {}", describe(kernel.entry().c_str(), config),
                    params_bytes, info_.name));
  }
  const std::lock_guard<std::mutex> lock(launch_mutex_);
  std::strncpy(last_launch_.entry, kernel.entry().c_str(), sizeof(last_launch_.entry) - 1);
  last_launch_.config = config;
  return {};
}

std::string CudaDevice::last_launch_text() {
  const std::lock_guard<std::mutex> lock(launch_mutex_);
  if (last_launch_.entry[0] == '\0') return "none";
  return describe(last_launch_.entry, last_launch_.config);
}

Status CudaDevice::synchronize(Stream stream) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const CuResult result = driver_.stream_synchronize(stream);
  if (result == kCuSuccess) return {};
  // A kernel's error appears here, not at its launch.
  return context_->status(result, "cuStreamSynchronize",
                          fmt::format("last launch: {}, on {}", last_launch_text(), info_.name));
}

Result<bool> CudaDevice::is_capturing(Stream stream) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  int status = 0;
  LSSAR_RETURN_IF_ERROR(
      context_->status(driver_.stream_is_capturing(stream, &status), "cuStreamIsCapturing"));
  return status != 0;
}

Status CudaDevice::create_events(Events* events) {
  for (CuEvent* event : {&events->begin, &events->end}) {
    if (*event != nullptr) continue;
    LSSAR_RETURN_IF_ERROR(context_->status(driver_.event_create(event, 0), "cuEventCreate"));
  }
  return {};
}

Status CudaDevice::timer_begin(Stream stream) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const std::lock_guard<std::mutex> lock(timer_mutex_);
  Events& events = timers_[stream];
  LSSAR_RETURN_IF_ERROR(create_events(&events));
  // Drops a begin without an end: an error between the two must not spoil the stream's timer.
  events.running = false;
  LSSAR_RETURN_IF_ERROR(
      context_->status(driver_.event_record(events.begin, stream), "cuEventRecord"));
  events.running = true;
  return {};
}

Result<double> CudaDevice::timer_end_ms(Stream stream) {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  Events events;
  {
    const std::lock_guard<std::mutex> lock(timer_mutex_);
    Events& running = timers_[stream];
    if (!running.running) return device_error("timer_end_ms: no timer_begin on this stream");
    running.running = false;
    events = running;
  }
  LSSAR_RETURN_IF_ERROR(
      context_->status(driver_.event_record(events.end, stream), "cuEventRecord"));
  LSSAR_RETURN_IF_ERROR(context_->status(driver_.event_synchronize(events.end),
                                         "cuEventSynchronize",
                                         "last launch: " + last_launch_text()));
  float milliseconds = 0;
  LSSAR_RETURN_IF_ERROR(context_->status(
      driver_.event_elapsed_ms(&milliseconds, events.begin, events.end), "cuEventElapsedTime"));
  return static_cast<double>(milliseconds);
}

// The GPU with its own limits. Its target is its capability without a suffix.
Result<DeviceInfo> read_info(const CudaDriver& driver, CuDevice device) {
  DeviceInfo info;
  info.kind = "cuda";
  char name[256] = "";
  LSSAR_RETURN_IF_ERROR(
      driver_status(driver, driver.device_name(name, static_cast<int>(sizeof(name) - 1), device),
                    "cuDeviceGetName"));
  info.name = name;
  int version = 0;
  LSSAR_RETURN_IF_ERROR(driver_status(driver, driver.get_version(&version), "cuDriverGetVersion"));
  info.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
  const std::pair<int, int*> fields[] = {
      {kCuAttributePciDomain, &pci_domain},
      {kCuAttributePciBus, &pci_bus},
      {kCuAttributePciDevice, &pci_device},
      {kCuAttributeMajor, &info.target.major},
      {kCuAttributeMinor, &info.target.minor},
      {kCuAttributeNumSms, &info.num_sms},
      {kCuAttributeThreadsPerSm, &info.target.threads_per_sm},
      {kCuAttributeSharedPerSm, &info.target.shared_bytes_per_sm},
      {kCuAttributeSharedPerBlockOptIn, &info.target.shared_bytes_per_block},
      {kCuAttributeRegistersPerSm, &info.target.registers_per_sm}};
  for (const auto& [attribute, value] : fields) {
    LSSAR_RETURN_IF_ERROR(driver_status(driver, driver.device_attribute(value, attribute, device),
                                        "cuDeviceGetAttribute",
                                        fmt::format("attribute {} of {}", attribute, info.name)));
  }
  info.id = fmt::format("{:04x}:{:02x}:{:02x}", pci_domain, pci_bus, pci_device);
  int l2_bytes = 0;  // not needed to run: a driver that does not know it is no error
  if (driver.device_attribute(&l2_bytes, kCuAttributeL2Bytes, device) == kCuSuccess)
    info.l2_bytes = l2_bytes;
  return info;
}

// Decides what `info` compiles for. Its limits stay the GPU's.
Result<ImageKind> choose_target(const std::string& name, DeviceInfo* info) {
  const int major = info->target.major;
  const int minor = info->target.minor;
  Target chosen;
  if (name.empty()) {
    Result<Target> best = target_for_capability(major, minor);
    if (!best.ok()) return best.status().with_context(info->name);
    chosen = *best;
  } else {
    LSSAR_ASSIGN_OR_RETURN(chosen, target_from_name(name));
  }
  const TargetFit fit = target_fit(chosen, major, minor);
  if (fit == TargetFit::kNone) {
    return invalid_argument(fmt::format(
        "target = {}: {} has compute capability {}.{} and runs targets up to that, those with a "
        "suffix only exactly",
        chosen.name(), info->name, major, minor));
  }
  info->target.major = chosen.major;
  info->target.minor = chosen.minor;
  info->target.suffix = chosen.suffix;
  return fit == TargetFit::kNative ? ImageKind::kCubin : ImageKind::kPtx;
}

Result<int> count_devices(const CudaDriver& driver) {
  int count = 0;
  LSSAR_RETURN_IF_ERROR(driver_status(driver, driver.device_count(&count), "cuDeviceGetCount"));
  return count;
}

}  // namespace

TargetFit target_fit(const Target& target, int major, int minor) {
  if (target.is_cpu()) return TargetFit::kNone;
  const bool is_exact = target.major == major && target.minor == minor;
  if (!target.suffix.empty()) return is_exact ? TargetFit::kNative : TargetFit::kNone;
  if (target.major == major && target.minor <= minor) return TargetFit::kNative;
  return target.major < major ? TargetFit::kPtx : TargetFit::kNone;
}

Result<std::shared_ptr<Device>> make_cuda_device(std::shared_ptr<const CudaDriver> driver,
                                                 int ordinal, const std::string& target) {
  LSSAR_ASSIGN_OR_RETURN(const int count, count_devices(*driver));
  if (count <= 0) return missing("the CUDA driver reports no GPU");
  if (ordinal < 0 || ordinal >= count) {
    return invalid_argument(
        fmt::format("GPU ordinal = {}: allowed are 0 to {}", ordinal, count - 1));
  }
  CuDevice device = 0;
  LSSAR_RETURN_IF_ERROR(
      driver_status(*driver, driver->device_get(&device, ordinal), "cuDeviceGet"));
  LSSAR_ASSIGN_OR_RETURN(DeviceInfo info, read_info(*driver, device));
  LSSAR_ASSIGN_OR_RETURN(const ImageKind preferred_image, choose_target(target, &info));
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<CudaContext> context,
                         CudaContext::retain(std::move(driver), device));
  log(LogLevel::kInfo, fmt::format("device cuda {}: {}, {}, {}", ordinal, info.name, info.driver,
                                   info.target.name()));
  return std::shared_ptr<Device>(
      std::make_shared<CudaDevice>(std::move(context), std::move(info), preferred_image));
}

Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriver& driver) {
  LSSAR_ASSIGN_OR_RETURN(const int count, count_devices(driver));
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice device = 0;
    LSSAR_RETURN_IF_ERROR(
        driver_status(driver, driver.device_get(&device, ordinal), "cuDeviceGet"));
    LSSAR_ASSIGN_OR_RETURN(DeviceInfo info, read_info(driver, device));
    const bool has_target = target_for_capability(info.target.major, info.target.minor).ok();
    if (has_target) LSSAR_RETURN_IF_ERROR(choose_target("", &info).status());
    devices.push_back(std::move(info));
  }
  return devices;
}

}  // namespace lssar
