// Repeats a captured call: prepares its kernels for this device, lays its tensors out as they were,
// runs and times it.
//
// Used by `lssar replay`. Threads: as Engine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "reference/random_inputs.h"
#include "runtime/capture.h"
#include "runtime/engine.h"
#include "tools/lssar/call/attention_run.h"

namespace lssar::command {

struct ReplayRequest {
  bool recompile = false;              // compile the captured source, even if its image would do
  bool regenerate = false;             // use the source that the generator makes today
  bool contiguous = false;             // tensors without gaps, instead of the captured layout
  int times = 0;                       // timed runs; 0: as many as the device's kind needs
  InputKind data = InputKind::kGauss;  // if no inputs were captured
  uint64_t seed = 1;
};

// A kernel as it ran here.
struct ReplayedKernel {
  std::shared_ptr<const PreparedKernel> kernel;
  std::string origin;  // "the captured image", "the captured source, compiled for sm_90 ..."
  bool was_captured = true;
  // Whether emit_kernel still makes the captured source from the captured problem, schedule and
  // target.
  bool generator_agrees = true;
};

// An output, compared bit by bit.
struct BitComparison {
  std::string name;
  size_t num_elements = 0, num_different = 0;
  size_t first_different = 0;  // index of the first element that differs
};

struct ReplayTiming {
  std::vector<double> ms;  // of the timed runs, sorted
  bool is_gpu = false;
  bool repeats = true;  // the outputs of the last run equal those of the first, bit by bit

  double median() const;
};

struct Replay {
  std::vector<ReplayedKernel> kernels;  // in the order they ran; the last is the captured call's
  AttentionInputs inputs;
  AttentionOutputs outputs;   // of this run; without `passes`
  AttentionOutputs captured;  // the captured outputs, decoded; empty if there are none
  std::vector<BitComparison> bits;
  ReplayTiming timing;
  std::vector<KernelCounters> counters;  // of one run of each kernel, if the device counts
};

// Errors: kUnsupported if the captured kernels take arguments that this library does not have;
// those of Engine::prepare_source, prepare_image and execute.
Result<Replay> run_replay(Engine& engine, const Capture& capture, const ReplayRequest& request);

}  // namespace lssar::command
