#include "device/launch_timer.h"

#include <fmt/format.h>

namespace lssar {

Result<std::unique_ptr<LaunchTimer>> CudaLaunchTimer::create(std::shared_ptr<CudaContext> context,
                                                             size_t num_samples) {
  const CudaContext::Current current(*context);
  LSSAR_RETURN_IF_ERROR(current.status());
  std::unique_ptr<CudaLaunchTimer> timer(new CudaLaunchTimer(context));
  for (size_t i = 0; i < 2 * num_samples; ++i) {
    CuEvent event = nullptr;
    LSSAR_RETURN_IF_ERROR(
        context->status(context->driver().event_create(&event, 0), "cuEventCreate"));
    timer->events_.push_back(event);
  }
  return std::unique_ptr<LaunchTimer>(std::move(timer));
}

CudaLaunchTimer::~CudaLaunchTimer() {
  const CudaContext::Current current(*context_);
  if (!current.status().ok()) return;
  for (const CuEvent event : events_) (void)context_->driver().event_destroy(event);
}

Status CudaLaunchTimer::record(size_t event, Stream stream) {
  if (event >= events_.size()) {
    return invalid_argument(
        fmt::format("launch timer: sample {}: it was made for {}", event / 2, events_.size() / 2));
  }
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  return context_->status(context_->driver().event_record(events_[event], stream), "cuEventRecord");
}

Result<double> CudaLaunchTimer::ms(size_t sample) {
  if (2 * sample + 1 >= events_.size()) {
    return invalid_argument(
        fmt::format("launch timer: sample {}: it was made for {}", sample, events_.size() / 2));
  }
  const CudaContext::Current current(*context_);
  LSSAR_RETURN_IF_ERROR(current.status());
  const CudaDriver& driver = context_->driver();
  LSSAR_RETURN_IF_ERROR(
      context_->status(driver.event_synchronize(events_[2 * sample + 1]), "cuEventSynchronize"));
  float milliseconds = 0;
  LSSAR_RETURN_IF_ERROR(context_->status(
      driver.event_elapsed_ms(&milliseconds, events_[2 * sample], events_[2 * sample + 1]),
      "cuEventElapsedTime"));
  return static_cast<double>(milliseconds);
}

}  // namespace lssar
