#include "tests/witness/cuda_stand_in.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "virtual/run/module.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxParameterBytes = 32764;  // since CUDA 12.1

// As a kernel reads them: aligned to what a tensor map needs.
struct alignas(128) ParameterBlock {
  uint8_t bytes[kMaxParameterBytes];
};

}  // namespace

CudaStandIn& CudaStandIn::instance() {
  // NOTE: never destroyed. Programs take back what they registered when the process ends.
  static auto* const stand_in = new CudaStandIn;
  return *stand_in;
}

void CudaStandIn::use(std::shared_ptr<Device> device) {
  for (const auto& module : modules_) module->loaded.reset();
  replaced_.reset();
  launched_.clear();
  device_ = std::move(device);
}

std::string CudaStandIn::module_of(const std::string& entry) const {
  for (const auto& module : modules_) {
    for (const auto& [host_function, name] : module->entries) {
      if (name == entry) return module->text;
    }
  }
  return {};
}

void CudaStandIn::replace(const std::string& entry, const std::string& text) {
  replaced_.reset();
  replaced_text_ = text;
  replaced_entry_ = text.empty() ? "" : entry;
}

std::string CudaStandIn::take_failure() {
  std::string text = std::exchange(failure_, "");
  // Names of templates fill pages.
  for (const auto& module : modules_) {
    for (const auto& [host_function, entry] : module->entries) {
      for (size_t at = 0; (at = text.find(entry, at)) != std::string::npos;) {
        text.replace(at, entry.size(), "it");
      }
    }
  }
  return text;
}

bool CudaStandIn::note(const Status& status) {
  if (failure_.empty()) failure_ = status.ok() ? "" : status.to_string();
  return status.ok();
}

void** CudaStandIn::add_module(std::string text) {
  modules_.push_back(std::make_unique<Registered>());
  modules_.back()->text = std::move(text);
  return reinterpret_cast<void**>(modules_.back().get());
}

void CudaStandIn::remove_module(void** module) {
  std::erase_if(modules_, [&](const auto& m) { return m.get() == static_cast<void*>(module); });
}

void CudaStandIn::add_kernel(void** module, const void* host_function, const std::string& entry) {
  reinterpret_cast<Registered*>(module)->entries[host_function] = entry;
}

Result<std::unique_ptr<DeviceModule>> CudaStandIn::load(const std::string& text) {
  if (device_ == nullptr) return device_error("no device is in use");
  Image image;
  image.bytes = text;
  return device_->load(image);
}

Result<const DeviceFunction*> CudaStandIn::function(const void* host_function) {
  for (const auto& module : modules_) {
    const auto found = module->entries.find(host_function);
    if (found == module->entries.end()) continue;
    const bool is_replaced = found->second == replaced_entry_;
    std::unique_ptr<DeviceModule>& loaded = is_replaced ? replaced_ : module->loaded;
    if (loaded == nullptr) {
      LSSAR_ASSIGN_OR_RETURN(loaded, load(is_replaced ? replaced_text_ : module->text));
    }
    return loaded->function(found->second);
  }
  return device_error("a kernel that no program registered");
}

Status CudaStandIn::prepare(const void* host_function, uint32_t max_shared_bytes) {
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* const kernel, function(host_function));
  return device_->prepare(*kernel, max_shared_bytes);
}

Status CudaStandIn::launch(const void* host_function, const LaunchConfig& config,
                           void** arguments) {
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* const kernel, function(host_function));
  const auto& program = dynamic_cast<const vdev::Function&>(*kernel).program();
  if (program.params_bytes > kMaxParameterBytes) {
    return device_error(fmt::format("{} bytes of parameters", program.params_bytes));
  }
  const auto block = std::make_unique<ParameterBlock>();
  for (size_t i = 0; i < program.parsed->params.size(); ++i) {
    const vdev::Variable& parameter = program.parsed->params[i];
    std::memcpy(block->bytes + parameter.address, arguments[i], parameter.bytes);
  }
  launched_.push_back(program.name);
  return device_->launch(*kernel, config, block->bytes, program.params_bytes, nullptr);
}

}  // namespace lssar::test
