#include "tests/device/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/device/fake_errors.h"

namespace lssar::test {

namespace {

FakeDriver* fake = nullptr;
thread_local std::vector<CuContext> context_stack;

// Handles are numbers that are never followed.
template <typename Handle>
Handle handle(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

const CuContext kPrimaryContext = handle<CuContext>(0xc0);
const CuModule kModule = handle<CuModule>(0xd0);
const CuFunction kFunction = handle<CuFunction>(0xf0);

}  // namespace

FakeGpu fake_gpu(const std::string& name, int major, int minor) {
  return {name,
          {{kCuAttributeMajor, major},
           {kCuAttributeMinor, minor},
           {kCuAttributeNumSms, 132},
           {kCuAttributePciDomain, 0},
           {kCuAttributePciBus, 0x3b},
           {kCuAttributePciDevice, 0},
           {kCuAttributeL2Bytes, 50 << 20},
           {kCuAttributeThreadsPerSm, 2048},
           {kCuAttributeSharedPerSm, 233472},
           {kCuAttributeSharedPerBlockOptIn, 232448},
           {kCuAttributeRegistersPerSm, 65536}}};
}

FakeGpu fake_h200() { return fake_gpu("NVIDIA H200", 9, 0); }

FakeDriver::FakeDriver() {
  order.reserve(kMaxOrder);
  fake = this;
}

FakeDriver::~FakeDriver() {
  for (const auto& [ptr, memory] : memory_) std::free(memory);
  fake = nullptr;
  context_stack.clear();
}

void FakeDriver::fail(const std::string& call, CuResult result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failures_[call] = result;
}

int FakeDriver::num_calls(std::string_view call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

FakeDriver::Open FakeDriver::open() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_;
}

CuContext FakeDriver::current_context() {
  return context_stack.empty() ? nullptr : context_stack.back();
}

int FakeDriver::context_depth() { return static_cast<int>(context_stack.size()); }

// REQUIRES: mutex_ is held.
CuResult FakeDriver::enter(std::string_view call, bool needs_context) {
  const auto counted = calls_.find(call);
  if (counted != calls_.end()) {
    ++counted->second;
  } else {
    calls_.emplace(call, 1);
  }
  if (needs_context && current_context() != kPrimaryContext) return kCuInvalidContext;
  const auto failure = failures_.find(call);
  return failure == failures_.end() ? kCuSuccess : failure->second;
}

// REQUIRES: mutex_ is held.
void FakeDriver::note(char call) {
  if (order.size() < kMaxOrder) order.push_back(call);
}

// Enters a call, or returns its error.
#define FAKE_ENTER(...)                                                           \
  const std::lock_guard<std::mutex> lock(fake->mutex_);                           \
  if (const CuResult entered = fake->enter(__VA_ARGS__); entered != kCuSuccess) { \
    return entered;                                                               \
  }

struct FakeCalls {
  static CuResult init(unsigned) {
    FAKE_ENTER("cuInit", false);
    return kCuSuccess;
  }
  static CuResult get_version(int* version) {
    FAKE_ENTER("cuDriverGetVersion", false);
    *version = 12080;
    return kCuSuccess;
  }
  static CuResult get_error_name(CuResult result, const char** name) {
    return fake_error_name(result, name);
  }
  static CuResult get_error_string(CuResult result, const char** text) {
    return fake_error_text(result, text);
  }

  static CuResult device_count(int* count) {
    FAKE_ENTER("cuDeviceGetCount", false);
    *count = static_cast<int>(fake->gpus.size());
    return kCuSuccess;
  }
  static CuResult device_get(CuDevice* device, int ordinal) {
    FAKE_ENTER("cuDeviceGet", false);
    *device = ordinal;
    return kCuSuccess;
  }
  static CuResult device_name(char* name, int length, CuDevice device) {
    FAKE_ENTER("cuDeviceGetName", false);
    std::strncpy(name, fake->gpus.at(device).name.c_str(), static_cast<size_t>(length));
    return kCuSuccess;
  }
  static CuResult device_attribute(int* value, int attribute, CuDevice device) {
    FAKE_ENTER("cuDeviceGetAttribute", false);
    const auto& attributes = fake->gpus.at(device).attributes;
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return kCuInvalidValue;
    *value = found->second;
    return kCuSuccess;
  }

  static CuResult primary_context_retain(CuContext* context, CuDevice) {
    FAKE_ENTER("cuDevicePrimaryCtxRetain", false);
    ++fake->open_.contexts;
    *context = kPrimaryContext;
    return kCuSuccess;
  }
  static CuResult primary_context_release(CuDevice) {
    FAKE_ENTER("cuDevicePrimaryCtxRelease", false);
    --fake->open_.contexts;
    return kCuSuccess;
  }
  static CuResult context_current(CuContext* context) {
    FAKE_ENTER("cuCtxGetCurrent", false);
    *context = FakeDriver::current_context();
    return kCuSuccess;
  }
  static CuResult context_push(CuContext context) {
    FAKE_ENTER("cuCtxPushCurrent", false);
    context_stack.push_back(context);
    return kCuSuccess;
  }
  static CuResult context_pop(CuContext* context) {
    FAKE_ENTER("cuCtxPopCurrent", false);
    if (context_stack.empty()) return kCuInvalidContext;
    *context = context_stack.back();
    context_stack.pop_back();
    return kCuSuccess;
  }

  static CuResult allocate(CuDevicePtr* ptr, size_t bytes) {
    FAKE_ENTER("cuMemAlloc");
    if (bytes > fake->memory_bytes) return kCuOutOfMemory;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (memory == nullptr) return kCuOutOfMemory;
    *ptr = reinterpret_cast<uintptr_t>(memory);
    fake->memory_[*ptr] = memory;
    ++fake->open_.allocations;
    return kCuSuccess;
  }
  static CuResult free(CuDevicePtr ptr) {
    FAKE_ENTER("cuMemFree");
    const auto found = fake->memory_.find(ptr);
    if (found == fake->memory_.end()) return kCuInvalidValue;
    std::free(found->second);
    fake->memory_.erase(found);
    --fake->open_.allocations;
    return kCuSuccess;
  }
  static CuResult allocate_host(void** memory, size_t bytes, unsigned flags) {
    FAKE_ENTER("cuMemHostAlloc");
    if (flags != (kCuHostPortable | kCuHostMapped)) return kCuInvalidValue;
    *memory = std::malloc(bytes);
    ++fake->open_.host_allocations;
    return kCuSuccess;
  }
  static CuResult free_host(void* memory) {
    FAKE_ENTER("cuMemFreeHost");
    std::free(memory);
    --fake->open_.host_allocations;
    return kCuSuccess;
  }
  static CuResult host_device_pointer(CuDevicePtr* ptr, void* host, unsigned flags) {
    FAKE_ENTER("cuMemHostGetDevicePointer");
    if (flags != 0) return kCuInvalidValue;
    *ptr = reinterpret_cast<uintptr_t>(host);
    return kCuSuccess;
  }
  static CuResult copy_to_device(CuDevicePtr dst, const void* src, size_t bytes) {
    FAKE_ENTER("cuMemcpyHtoD");
    std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
    return kCuSuccess;
  }
  static CuResult copy_to_host(void* dst, CuDevicePtr src, size_t bytes) {
    FAKE_ENTER("cuMemcpyDtoH");
    std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
    return kCuSuccess;
  }
  static CuResult fill(CuDevicePtr dst, unsigned char byte, size_t bytes) {
    FAKE_ENTER("cuMemsetD8");
    std::memset(reinterpret_cast<void*>(dst), byte, bytes);
    return kCuSuccess;
  }
  static CuResult fill_async(CuDevicePtr dst, unsigned char byte, size_t bytes, CuStream stream) {
    FAKE_ENTER("cuMemsetD8Async");
    std::memset(reinterpret_cast<void*>(dst), byte, bytes);
    fake->note('F');
    return kCuSuccess;
  }

  // Writes the logs where the options say; each ends in NUL only where it does not fill its buffer.
  static void write_logs(unsigned num_options, const int* options, void** values) {
    const auto value_of = [&](int option) -> void* {
      for (unsigned i = 0; i < num_options; ++i) {
        if (options[i] == option) return values[i];
      }
      return nullptr;
    };
    const auto write = [&](const std::string& text, int buffer_option, int bytes_option) {
      auto* buffer = static_cast<char*>(value_of(buffer_option));
      const auto bytes = reinterpret_cast<uintptr_t>(value_of(bytes_option));
      if (buffer != nullptr) std::memcpy(buffer, text.data(), std::min(text.size(), bytes));
    };
    write(fake->jit_error_log, kCuJitErrorLog, kCuJitErrorLogBytes);
    write(fake->jit_info_log, kCuJitInfoLog, kCuJitInfoLogBytes);
  }
  static CuResult module_load(CuModule* module, const void* image, unsigned num_options,
                              int* options, void** values) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (const CuResult result = fake->enter("cuModuleLoadDataEx"); result != kCuSuccess) {
      write_logs(num_options, options, values);
      return result;
    }
    fake->loaded_image = static_cast<const char*>(image);
    ++fake->open_.modules;
    *module = kModule;
    return kCuSuccess;
  }
  static CuResult module_unload(CuModule module) {
    FAKE_ENTER("cuModuleUnload");
    if (module != kModule) return kCuInvalidValue;
    --fake->open_.modules;
    return kCuSuccess;
  }
  static CuResult module_function(CuFunction* function, CuModule module, const char* name) {
    FAKE_ENTER("cuModuleGetFunction");
    if (module != kModule) return kCuInvalidValue;
    if (fake->entries.count(name) == 0) return kCuNotFound;
    *function = kFunction;
    return kCuSuccess;
  }
  static CuResult module_global(CuDevicePtr* place, size_t* bytes, CuModule module,
                                const char* name) {
    FAKE_ENTER("cuModuleGetGlobal");
    if (module != kModule) return kCuInvalidValue;
    const auto found = fake->variables.find(name);
    if (found == fake->variables.end()) return kCuNotFound;
    *place = found->second;
    *bytes = sizeof(CuDevicePtr);
    return kCuSuccess;
  }
  static CuResult function_attribute(int* value, int attribute, CuFunction) {
    FAKE_ENTER("cuFuncGetAttribute");
    switch (attribute) {
      case kCuFunctionSharedBytes:
        *value = 1024;
        return kCuSuccess;
      case kCuFunctionLocalBytes:
        *value = 16;
        return kCuSuccess;
      case kCuFunctionRegisters:
        *value = 168;
        return kCuSuccess;
      case kCuFunctionMaxDynamicShared:
        *value = fake->shared_limit_ < 0 ? fake->default_shared_bytes : fake->shared_limit_;
        return kCuSuccess;
      default:
        return kCuInvalidValue;
    }
  }
  static CuResult set_function_attribute(CuFunction, int attribute, int value) {
    FAKE_ENTER("cuFuncSetAttribute");
    fake->attributes_set.emplace_back(attribute, value);
    if (attribute == kCuFunctionMaxDynamicShared) fake->shared_limit_ = value;
    return kCuSuccess;
  }
  static CuResult function_load(CuFunction) {
    FAKE_ENTER("cuFuncLoad");
    return kCuSuccess;
  }

  static CuResult function_parameter(CuFunction, size_t index, size_t* offset, size_t* bytes) {
    FAKE_ENTER("cuFuncGetParamInfo");
    if (index != 0 || !fake->params_bytes) return kCuInvalidValue;
    *offset = 0;
    *bytes = *fake->params_bytes;
    return kCuSuccess;
  }

  static CuResult launch(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, CuStream stream, void** params, void** extra) {
    FAKE_ENTER("cuLaunchKernel");
    if (function != kFunction || extra != nullptr) return kCuInvalidValue;
    FakeLaunch& launched = fake->last_launch;
    launched = {};
    launched.grid = {grid_x, grid_y, grid_z};
    launched.block = {block_x, block_y, block_z};
    launched.shared_bytes = shared_bytes;
    launched.stream = stream;
    fake->note('L');
    return take_params(params, launched);
  }
  static CuResult launch_extended(const CuLaunchConfig* config, CuFunction function, void** params,
                                  void** extra) {
    FAKE_ENTER("cuLaunchKernelEx");
    if (function != kFunction || extra != nullptr) return kCuInvalidValue;
    if (!take_config(*config, fake->last_launch)) return kCuInvalidValue;
    fake->note('L');
    return take_params(params, fake->last_launch);
  }
  static CuResult max_active_clusters(int* clusters, CuFunction function,
                                      const CuLaunchConfig* config) {
    FAKE_ENTER("cuOccupancyMaxActiveClusters");
    if (function != kFunction) return kCuInvalidValue;
    if (!take_config(*config, fake->last_occupancy)) return kCuInvalidValue;
    *clusters = fake->max_active_clusters;
    return kCuSuccess;
  }
  static bool take_config(const CuLaunchConfig& config, FakeLaunch& launched) {
    launched = {};
    std::copy_n(config.grid, 3, launched.grid.begin());
    std::copy_n(config.block, 3, launched.block.begin());
    launched.shared_bytes = config.shared_bytes;
    launched.stream = config.stream;
    for (unsigned i = 0; i < config.num_attributes; ++i) {
      const CuLaunchAttribute& attribute = config.attributes[i];
      if (attribute.id != kCuLaunchCluster) return false;
      std::copy_n(attribute.cluster, 3, launched.cluster.begin());
    }
    return true;
  }
  // Takes the parameters as the driver does: a pointer to each, whose size the kernel knows.
  static CuResult take_params(void** params, FakeLaunch& launched) {
    if (params == nullptr || params[0] == nullptr) return kCuInvalidValue;
    launched.params_bytes = fake->params_bytes.value_or(0);
    std::memcpy(launched.params.data(), params[0], launched.params_bytes);
    return kCuSuccess;
  }
  static CuResult stream_synchronize(CuStream stream) {
    FAKE_ENTER("cuStreamSynchronize");
    fake->note('S');
    fake->synchronized_streams.push_back(stream);
    return kCuSuccess;
  }

  static CuResult stream_is_capturing(CuStream, int* status) {
    FAKE_ENTER("cuStreamIsCapturing");
    *status = fake->capture_status;
    return kCuSuccess;
  }

  static CuResult encode_tiled(void* map, unsigned type, uint32_t rank, void* global_address,
                               const uint64_t* global_dims, const uint64_t* global_strides,
                               const uint32_t* box_dims, const uint32_t* element_strides,
                               unsigned interleave, unsigned swizzle, unsigned l2_promotion,
                               unsigned fill) {
    FAKE_ENTER("cuTensorMapEncodeTiled");
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return kCuInvalidValue;
    FakeTensorMap& encoded = fake->last_tensor_map;
    encoded.type = type;
    encoded.rank = rank;
    encoded.global_address = reinterpret_cast<uintptr_t>(global_address);
    // assign() keeps a vector's memory: tests count what the device allocates.
    encoded.global_dims.assign(global_dims, global_dims + rank);
    encoded.global_strides.assign(global_strides, global_strides + rank - 1);
    encoded.box_dims.assign(box_dims, box_dims + rank);
    encoded.element_strides.assign(element_strides, element_strides + rank);
    encoded.interleave = interleave;
    encoded.swizzle = swizzle;
    encoded.l2_promotion = l2_promotion;
    encoded.fill = fill;
    std::memset(map, 0x5a, 128);
    return kCuSuccess;
  }

  static CuResult event_create(CuEvent* event, unsigned) {
    FAKE_ENTER("cuEventCreate");
    ++fake->open_.events;
    *event = handle<CuEvent>(0xe0 + static_cast<uintptr_t>(fake->open_.events));
    return kCuSuccess;
  }
  static CuResult event_record(CuEvent event, CuStream stream) {
    FAKE_ENTER("cuEventRecord");
    if (event == nullptr) return kCuInvalidValue;
    fake->recorded_streams.push_back(stream);
    fake->note('E');
    return kCuSuccess;
  }
  static CuResult event_synchronize(CuEvent) {
    FAKE_ENTER("cuEventSynchronize");
    fake->note('S');
    return kCuSuccess;
  }
  static CuResult event_elapsed_ms(float* milliseconds, CuEvent begin, CuEvent end) {
    FAKE_ENTER("cuEventElapsedTime");
    if (begin == nullptr || end == nullptr || begin == end) return kCuInvalidValue;
    *milliseconds = fake->elapsed_ms;
    return kCuSuccess;
  }
  static CuResult event_destroy(CuEvent) {
    FAKE_ENTER("cuEventDestroy");
    --fake->open_.events;
    return kCuSuccess;
  }
};

std::shared_ptr<const CudaDriver> FakeDriver::table() const {
  using C = FakeCalls;
  auto driver = std::make_shared<CudaDriver>();
  driver->init = C::init;
  driver->get_version = C::get_version;
  driver->get_error_name = C::get_error_name;
  driver->get_error_string = C::get_error_string;
  driver->device_count = C::device_count;
  driver->device_get = C::device_get;
  driver->device_name = C::device_name;
  driver->device_attribute = C::device_attribute;
  driver->primary_context_retain = C::primary_context_retain;
  driver->primary_context_release = C::primary_context_release;
  driver->context_current = C::context_current;
  driver->context_push = C::context_push;
  driver->context_pop = C::context_pop;
  driver->allocate = C::allocate;
  driver->free = C::free;
  driver->allocate_host = C::allocate_host;
  driver->free_host = C::free_host;
  driver->host_device_pointer = C::host_device_pointer;
  driver->copy_to_device = C::copy_to_device;
  driver->copy_to_host = C::copy_to_host;
  driver->fill = C::fill;
  driver->fill_async = C::fill_async;
  driver->module_load = C::module_load;
  driver->module_unload = C::module_unload;
  driver->module_function = C::module_function;
  driver->module_global = C::module_global;
  driver->function_attribute = C::function_attribute;
  driver->set_function_attribute = C::set_function_attribute;
  driver->function_load = C::function_load;
  driver->function_parameter = C::function_parameter;
  driver->launch = C::launch;
  driver->launch_extended = has_launch_extended ? C::launch_extended : nullptr;
  if (has_max_active_clusters) driver->max_active_clusters = C::max_active_clusters;
  driver->stream_synchronize = C::stream_synchronize;
  driver->stream_is_capturing = C::stream_is_capturing;
  if (has_encode_tiled) driver->encode_tiled = C::encode_tiled;
  driver->event_create = C::event_create;
  driver->event_record = C::event_record;
  driver->event_synchronize = C::event_synchronize;
  driver->event_elapsed_ms = C::event_elapsed_ms;
  driver->event_destroy = C::event_destroy;
  return driver;
}

}  // namespace lssar::test
