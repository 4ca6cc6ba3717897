// LSSAR_CAPTURE_DIR: plans write a capture of one call of each of their kernels.
//
// Used by Plan. Threads: any number may execute at once.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/engine.h"

namespace lssar {

// The kernel of a call, and of a backward the forward for training that its plan has, else null.
struct CallKernels {
  const PreparedKernel& kernel;
  const PreparedKernel* forward_train = nullptr;
};

class PlanCapture {
 public:
  // Null without LSSAR_CAPTURE_DIR, so that a plan asks the environment once. A variable that is
  // not understood is a warning in the log, and null.
  static std::unique_ptr<const PlanCapture> from_environment();

  // Engine::execute; and of the call that is the kernel's LSSAR_CAPTURE_CALL-th in this process
  // NAME.KEY.HOST-PID.lssar is written. With LSSAR_CAPTURE_INPUTS=1 that call waits for its stream,
  // copies its tensors and waits for its end. While the stream is captured into a graph that is
  // not done: the call does not count. What cannot be captured or written is a warning.
  // Errors: those of execute, and of the wait for its end.
  Status execute(Engine& engine, const CallKernels& kernels, const Sizes& sizes,
                 const Tensors& tensors, const Workspace& workspace, Stream stream) const;

 private:
  PlanCapture(std::string folder, bool with_tensors, uint64_t call)
      : folder_(std::move(folder)), with_tensors_(with_tensors), call_(call) {}

  // Counts the call; whether it is the one.
  bool is_the_call(const PreparedKernel& kernel) const;

  const std::string folder_;
  const bool with_tensors_;
  const uint64_t call_;
};

}  // namespace lssar
