#include "device/cuda_module.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace lssar {
namespace {

constexpr size_t kLogBytes = 16 * 1024;

// What the driver wrote into a zeroed buffer.
std::string text_of(const std::vector<char>& buffer) { return std::string(buffer.data()); }

// The driver's convention: an option's value is a pointer that holds an integer.
void* option_value(size_t value) { return reinterpret_cast<void*>(static_cast<uintptr_t>(value)); }

std::optional<size_t> params_bytes(const CudaDriver& driver, CuFunction function) {
  size_t offset = 0, bytes = 0;
  if (driver.function_parameter == nullptr ||
      driver.function_parameter(function, 0, &offset, &bytes) != kCuSuccess) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

std::string entries_of(const Image& image) {
  std::string names;
  const auto add = [&names](std::string_view name) {
    if (!names.empty()) names += ", ";
    names += name;
  };
  for (const KernelResources& kernel : image.resources) add(kernel.entry);
  if (names.empty() && image.kind == ImageKind::kPtx) {
    constexpr std::string_view kEntry = ".visible .entry ";
    const std::string_view text = image.bytes;
    for (size_t at = text.find(kEntry); at != text.npos; at = text.find(kEntry, at)) {
      at += kEntry.size();
      add(text.substr(at, text.find_first_of("( \n", at) - at));
    }
  }
  return names.empty() ? "unknown" : names;
}

CudaModule::CudaModule(std::shared_ptr<CudaContext> context, CuModule handle, const Image& image)
    : context_(std::move(context)), handle_(handle), entries_(entries_of(image)) {}

Result<std::unique_ptr<DeviceModule>> CudaModule::load(std::shared_ptr<CudaContext> context,
                                                       const Image& image) {
  const CudaContext::Current current(*context);
  LSSAR_RETURN_IF_ERROR(current.status());
  // One byte more than the driver knows of, so that the text ends even if it fills the buffer.
  std::vector<char> info_log(kLogBytes + 1);
  std::vector<char> error_log(kLogBytes + 1);
  int options[] = {kCuJitInfoLog, kCuJitInfoLogBytes, kCuJitErrorLog, kCuJitErrorLogBytes};
  void* values[] = {info_log.data(), option_value(kLogBytes), error_log.data(),
                    option_value(kLogBytes)};
  CuModule handle = nullptr;
  // PTX must end with a NUL, as std::string's bytes do.
  const CuResult result = context->driver().module_load(
      &handle, image.bytes.c_str(), static_cast<unsigned>(std::size(options)), options, values);
  if (result != kCuSuccess) {
    return context->status(result, "cuModuleLoadDataEx",
                           fmt::format("{} of {} bytes for {}\nerror log:\n{}\ninfo log:\n{}",
                                       image_kind_name(image.kind), image.bytes.size(),
                                       image.target, text_of(error_log), text_of(info_log)));
  }
  return std::unique_ptr<DeviceModule>(new CudaModule(std::move(context), handle, image));
}

CudaModule::~CudaModule() {
  const CudaContext::Current current(*context_);
  if (current.status().ok()) (void)context_->driver().module_unload(handle_);
}

Result<const DeviceFunction*> CudaModule::function(const std::string& entry) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<CudaFunction>& kept = functions_[entry];
  if (kept == nullptr) {
    LSSAR_ASSIGN_OR_RETURN(kept, find(entry));
  }
  return kept.get();
}

Result<DevicePtr> CudaModule::variable(const std::string& name) const {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  CuDevicePtr place = 0;
  size_t bytes = 0;
  const CuResult result = context_->driver().module_global(&place, &bytes, handle_, name.c_str());
  if (result == kCuNotFound) return DevicePtr{0};
  LSSAR_RETURN_IF_ERROR(context_->status(result, "cuModuleGetGlobal", "variable " + name));
  return DevicePtr{place};
}

Result<std::unique_ptr<CudaFunction>> CudaModule::find(const std::string& entry) const {
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const CudaDriver& driver = context_->driver();
  CuFunction handle = nullptr;
  LSSAR_RETURN_IF_ERROR(context_->status(
      driver.module_function(&handle, handle_, entry.c_str()), "cuModuleGetFunction",
      fmt::format("entry {}; the image has {}", entry, entries_)));
  if (driver.function_load != nullptr) {
    LSSAR_RETURN_IF_ERROR(
        context_->status(driver.function_load(handle), "cuFuncLoad", "entry " + entry));
  }
  KernelResources resources;
  resources.entry = entry;
  const std::pair<int, int*> fields[] = {{kCuFunctionRegisters, &resources.registers},
                                         {kCuFunctionSharedBytes, &resources.shared_bytes},
                                         {kCuFunctionLocalBytes, &resources.local_bytes}};
  for (const auto& [attribute, value] : fields) {
    LSSAR_RETURN_IF_ERROR(context_->status(driver.function_attribute(value, attribute, handle),
                                           "cuFuncGetAttribute", "entry " + entry));
  }
  return std::make_unique<CudaFunction>(handle, std::move(resources), params_bytes(driver, handle));
}

}  // namespace lssar
