// The retained primary context of one GPU, shared by a cuda device and its modules. Private to this
// folder.
//
// Threads: any; Current makes the context the calling thread's for a scope.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "device/driver_api.h"

namespace lssar {

class CudaContext {
 public:
  static Result<std::shared_ptr<CudaContext>> retain(std::shared_ptr<const CudaDriver> driver,
                                                     CuDevice device);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  Status status(CuResult result, const char* call, const std::string& details = "") const {
    return driver_status(*driver_, result, call, details);
  }

  // Makes the context current until the end of the scope. Pushes nothing if it is current already,
  // as it usually is under a framework, which uses the primary context too.
  class Current {
   public:
    explicit Current(const CudaContext& context);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    const CudaContext& context_;
    Status status_;
    bool pushed_ = false;
  };

 private:
  CudaContext(std::shared_ptr<const CudaDriver> driver, CuDevice device, CuContext handle)
      : driver_(std::move(driver)), device_(device), handle_(handle) {}

  const std::shared_ptr<const CudaDriver> driver_;
  const CuDevice device_;
  const CuContext handle_;
};

}  // namespace lssar
