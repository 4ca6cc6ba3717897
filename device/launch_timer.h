// The launch timer of the cuda device: a pair of events per sample. Private to this folder.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <vector>

#include "device/cuda_context.h"
#include "device/device.h"

namespace lssar {

class CudaLaunchTimer final : public LaunchTimer {
 public:
  static Result<std::unique_ptr<LaunchTimer>> create(std::shared_ptr<CudaContext> context,
                                                     size_t num_samples);
  ~CudaLaunchTimer() override;
  CudaLaunchTimer(const CudaLaunchTimer&) = delete;
  CudaLaunchTimer& operator=(const CudaLaunchTimer&) = delete;

  Status begin(size_t sample, Stream stream) override { return record(2 * sample, stream); }
  Status end(size_t sample, Stream stream) override { return record(2 * sample + 1, stream); }
  Result<double> ms(size_t sample) override;

 private:
  explicit CudaLaunchTimer(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  Status record(size_t event, Stream stream);

  const std::shared_ptr<CudaContext> context_;
  std::vector<CuEvent> events_;  // begin and end of each sample in turn
};

}  // namespace lssar
