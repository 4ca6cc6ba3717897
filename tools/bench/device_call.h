// One pass of a problem on a device, with everything it needs in device memory, ready to be run
// again and again. Used by the benchmarks of kernels. Threads: one at a time.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"

namespace lssar::bench {

class DeviceCall {
 public:
  // Prepares the pass (a backward's forward for training too, which is run once) and uploads random
  // inputs. Lengths come from `sizes`; the kernels are made for run-time lengths.
  static Result<std::unique_ptr<DeviceCall>> create(Engine& engine, const Problem& problem,
                                                    const Sizes& sizes);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Enqueues the pass once, waits, and gives the milliseconds by the device's own clock.
  Result<double> run_ms();

 private:
  explicit DeviceCall(Engine& engine, const Sizes& sizes) : engine_(engine), sizes_(sizes) {}

  Status allocate_tensors(const Problem& problem);
  Status upload_inputs(const Problem& problem);
  Status prepare(const Problem& problem);
  Result<DevicePtr> allocate(size_t bytes);

  Engine& engine_;
  const Sizes sizes_;
  std::vector<DevicePtr> buffers_;
  Tensors tensors_;
  Workspace workspace_;
  std::shared_ptr<const PreparedKernel> kernel_;
};

}  // namespace lssar::bench
