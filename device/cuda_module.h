// A module and its functions on a GPU. Private to this folder.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "compile/compiler.h"
#include "device/cuda_context.h"
#include "device/device.h"

namespace lssar {

class CudaFunction final : public DeviceFunction {
 public:
  CudaFunction(CuFunction handle, KernelResources resources, std::optional<size_t> params_bytes)
      : handle_(handle), resources_(std::move(resources)), params_bytes_(params_bytes) {}
  KernelResources resources() const override { return resources_; }
  CuFunction handle() const { return handle_; }
  const std::string& entry() const { return resources_.entry; }
  // The kernel has one parameter, this large. Nothing if the driver does not say.
  std::optional<size_t> params_bytes() const { return params_bytes_; }

 private:
  const CuFunction handle_;
  const KernelResources resources_;
  const std::optional<size_t> params_bytes_;
};

class CudaModule final : public DeviceModule {
 public:
  // kDeviceError with the driver's log.
  static Result<std::unique_ptr<DeviceModule>> load(std::shared_ptr<CudaContext> context,
                                                    const Image& image);
  ~CudaModule() override;
  Result<const DeviceFunction*> function(const std::string& entry) const override;
  Result<DevicePtr> variable(const std::string& name) const override;

 private:
  CudaModule(std::shared_ptr<CudaContext> context, CuModule handle, const Image& image);

  Result<std::unique_ptr<CudaFunction>> find(const std::string& entry) const;

  const std::shared_ptr<CudaContext> context_;
  const CuModule handle_;
  const std::string entries_;  // for messages
  mutable std::mutex mutex_;   // guards what follows
  mutable std::map<std::string, std::unique_ptr<CudaFunction>> functions_;
};

// The names of the kernels in an image, for messages: "a, b", or "unknown".
std::string entries_of(const Image& image);

}  // namespace lssar
