// LSSAR_CAPTURE_DIR: plans capture one call of each of their kernels.
//
// Used by Plan. Threads: any number may execute at once.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/engine.h"

namespace lssar {

// The kernel of a call. For a backward also the plan's forward for training, or null.
struct CallKernels {
  const PreparedKernel& kernel;
  const PreparedKernel* forward_train = nullptr;
};

class PlanCapture {
 public:
  // Null without LSSAR_CAPTURE_DIR, so a plan reads the environment only once. A malformed variable
  // gives a warning in the log and null.
  static std::unique_ptr<const PlanCapture> from_environment();

  // Runs Engine::execute. For a kernel's LSSAR_CAPTURE_CALL-th call in this process it also writes
  // NAME.KEY.HOST-PID.lssar. With LSSAR_CAPTURE_INPUTS=1 that call waits for its stream, copies its
  // tensors, and waits for its end. While the stream is captured into a graph, calls do not count
  // and nothing is written. Failures of the capture are warnings. Errors: those of execute, and of
  // the wait for its end.
  Status execute(Engine& engine, const CallKernels& kernels, const Sizes& sizes,
                 const Tensors& tensors, const Workspace& workspace, Stream stream) const;

 private:
  PlanCapture(std::string folder, bool with_tensors, uint64_t call)
      : folder_(std::move(folder)), with_tensors_(with_tensors), call_(call) {}

  // Counts the call and returns whether it is the one to capture.
  bool is_the_call(const PreparedKernel& kernel) const;

  const std::string folder_;
  const bool with_tensors_;
  const uint64_t call_;
};

}  // namespace lssar
