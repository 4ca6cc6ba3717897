#include "device/driver_api.h"

#include <mutex>

#include <fmt/format.h>

#include "base/dynamic_library.h"

namespace lssar {
namespace {

// The second is where Windows puts its driver in a Linux subsystem.
constexpr const char* kNames[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
constexpr const char* kHowToGet =
    "a GPU needs NVIDIA's driver (525 or later); without one use the virtual device";

// NOTE: _v2 is the current interface of a function whose plain name is an older one's.
bool bind(const DynamicLibrary& library, CudaDriver* driver) {
  (void)bind_symbol(library, "cuFuncGetParamInfo", driver->function_parameter);
  (void)bind_symbol(library, "cuFuncLoad", driver->function_load);
  (void)bind_symbol(library, "cuLaunchKernelEx", driver->launch_extended);
  (void)bind_symbol(library, "cuOccupancyMaxActiveClusters", driver->max_active_clusters);
  (void)bind_symbol(library, "cuTensorMapEncodeTiled", driver->encode_tiled);
  return bind_symbol(library, "cuInit", driver->init) &&
         bind_symbol(library, "cuDriverGetVersion", driver->get_version) &&
         bind_symbol(library, "cuGetErrorName", driver->get_error_name) &&
         bind_symbol(library, "cuGetErrorString", driver->get_error_string) &&
         bind_symbol(library, "cuDeviceGetCount", driver->device_count) &&
         bind_symbol(library, "cuDeviceGet", driver->device_get) &&
         bind_symbol(library, "cuDeviceGetName", driver->device_name) &&
         bind_symbol(library, "cuDeviceGetAttribute", driver->device_attribute) &&
         bind_symbol(library, "cuDevicePrimaryCtxRetain", driver->primary_context_retain) &&
         bind_symbol(library, "cuDevicePrimaryCtxRelease_v2", driver->primary_context_release) &&
         bind_symbol(library, "cuCtxGetCurrent", driver->context_current) &&
         bind_symbol(library, "cuCtxPushCurrent_v2", driver->context_push) &&
         bind_symbol(library, "cuCtxPopCurrent_v2", driver->context_pop) &&
         bind_symbol(library, "cuMemAlloc_v2", driver->allocate) &&
         bind_symbol(library, "cuMemFree_v2", driver->free) &&
         bind_symbol(library, "cuMemcpyHtoD_v2", driver->copy_to_device) &&
         bind_symbol(library, "cuMemcpyDtoH_v2", driver->copy_to_host) &&
         bind_symbol(library, "cuMemsetD8_v2", driver->fill) &&
         bind_symbol(library, "cuMemsetD8Async", driver->fill_async) &&
         bind_symbol(library, "cuMemHostAlloc", driver->allocate_host) &&
         bind_symbol(library, "cuMemFreeHost", driver->free_host) &&
         bind_symbol(library, "cuMemHostGetDevicePointer_v2", driver->host_device_pointer) &&
         bind_symbol(library, "cuModuleLoadDataEx", driver->module_load) &&
         bind_symbol(library, "cuModuleUnload", driver->module_unload) &&
         bind_symbol(library, "cuModuleGetFunction", driver->module_function) &&
         bind_symbol(library, "cuModuleGetGlobal_v2", driver->module_global) &&
         bind_symbol(library, "cuFuncGetAttribute", driver->function_attribute) &&
         bind_symbol(library, "cuFuncSetAttribute", driver->set_function_attribute) &&
         bind_symbol(library, "cuLaunchKernel", driver->launch) &&
         bind_symbol(library, "cuStreamSynchronize", driver->stream_synchronize) &&
         bind_symbol(library, "cuStreamIsCapturing", driver->stream_is_capturing) &&
         bind_symbol(library, "cuEventCreate", driver->event_create) &&
         bind_symbol(library, "cuEventRecord", driver->event_record) &&
         bind_symbol(library, "cuEventSynchronize", driver->event_synchronize) &&
         bind_symbol(library, "cuEventElapsedTime", driver->event_elapsed_ms) &&
         bind_symbol(library, "cuEventDestroy_v2", driver->event_destroy);
}

Result<std::shared_ptr<const CudaDriver>> open_library() {
  std::string tried;
  for (const char* name : kNames) {
    Result<DynamicLibrary> library = DynamicLibrary::open(name);
    if (!library.ok()) {
      tried += fmt::format("\n  {}: {}", name, library.status().message());
      continue;
    }
    auto driver = std::make_shared<CudaDriver>();
    if (!bind(*library, driver.get())) {
      tried += fmt::format("\n  {}: too old, functions are missing", name);
      continue;
    }
    if (const CuResult result = driver->init(0); result != kCuSuccess) {
      return driver_init_error(*driver, result);
    }
    return std::shared_ptr<const CudaDriver>(std::move(driver));
  }
  return missing(fmt::format("no CUDA driver: {}. Tried:{}", kHowToGet, tried));
}

}  // namespace

Result<std::shared_ptr<const CudaDriver>> open_cuda_driver() {
  static std::mutex mutex;
  // NOTE: never destroyed, because devices may be closed while the process exits.
  static auto* const kept = new std::shared_ptr<const CudaDriver>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (*kept != nullptr) return *kept;
  LSSAR_ASSIGN_OR_RETURN(*kept, open_library());
  return *kept;
}

Status driver_init_error(const CudaDriver& driver, CuResult result) {
  const Status status = driver_status(driver, result, "cuInit");
  // The stub is the CUDA toolkit's, for linking.
  if (result == kCuNoDevice || result == kCuStubLibrary) {
    return missing(
        fmt::format("the CUDA driver finds no GPU ({}); {}", status.message(), kHowToGet));
  }
  return device_error(
      fmt::format("the CUDA driver does not start ({}); {}", status.message(), kHowToGet));
}

Status driver_status(const CudaDriver& driver, CuResult result, const char* call,
                     const std::string& details) {
  if (result == kCuSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  (void)driver.get_error_name(result, &name);
  (void)driver.get_error_string(result, &text);
  std::string message = fmt::format("{}: {} ({}): {}", call, name != nullptr ? name : "unknown",
                                    result, text != nullptr ? text : "no description");
  if (!details.empty()) message += "; " + details;
  if (result == kCuOutOfMemory) return out_of_memory(std::move(message));
  return device_error(std::move(message));
}

}  // namespace lssar
