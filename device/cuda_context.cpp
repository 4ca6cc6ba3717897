#include "device/cuda_context.h"

namespace lssar {

Result<std::shared_ptr<CudaContext>> CudaContext::retain(std::shared_ptr<const CudaDriver> driver,
                                                         CuDevice device) {
  CuContext handle = nullptr;
  LSSAR_RETURN_IF_ERROR(driver_status(*driver, driver->primary_context_retain(&handle, device),
                                      "cuDevicePrimaryCtxRetain"));
  return std::shared_ptr<CudaContext>(new CudaContext(std::move(driver), device, handle));
}

CudaContext::~CudaContext() {
  // It fails if the process exits and the driver is gone already. Then nothing is left to release.
  (void)driver_->primary_context_release(device_);
}

CudaContext::Current::Current(const CudaContext& context) : context_(context) {
  CuContext current = nullptr;
  const CudaDriver& driver = context.driver();
  if (driver.context_current(&current) == kCuSuccess && current == context.handle_) return;
  status_ = context.status(driver.context_push(context.handle_), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

CudaContext::Current::~Current() {
  CuContext popped = nullptr;
  if (pushed_) (void)context_.driver().context_pop(&popped);
}

}  // namespace lssar
