// A captured call done again: its kernels prepared for this device, its tensors laid out as they
// were, run and timed.
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
  bool recompile = false;   // the captured source, though its image would do
  bool regenerate = false;  // what the generator makes today instead of the captured source
  bool contiguous = false;  // tensors without gaps, instead of as they lay
  int times = 0;            // timed runs; 0: as many as the device's kind needs
  InputKind data = InputKind::kGauss;  // where none were captured
  uint64_t seed = 1;
};

// A kernel as it ran here.
struct ReplayedKernel {
  std::shared_ptr<const PreparedKernel> kernel;
  std::string origin;  // "the captured image", "the captured source, compiled for sm_90 ..."
  bool was_captured = true;
  // Whether emit_kernel makes the same source of the captured problem, schedule and target today.
  bool generator_agrees = true;
};

// An output, bit for bit.
struct BitComparison {
  std::string name;
  size_t num_elements = 0, num_different = 0;
  size_t first_different = 0;  // by number of element
};

struct ReplayTiming {
  std::vector<double> ms;  // of each timed run, sorted
  bool is_gpu = false;
  bool repeats = true;  // the last run's outputs have the bits of the first's

  double median() const;
};

struct Replay {
  std::vector<ReplayedKernel> kernels;  // in the order they ran; the last is the captured call's
  AttentionInputs inputs;
  AttentionOutputs outputs;   // of this run; without `passes`
  AttentionOutputs captured;  // of the capture, decoded; empty where it has none
  std::vector<BitComparison> bits;
  ReplayTiming timing;
  std::vector<KernelCounters> counters;  // of one run of each kernel, where the device counts
};

// Errors: kUnsupported where the captured kernels take what this library does not give; those of
// Engine::prepare_source, prepare_image and execute.
Result<Replay> run_replay(Engine& engine, const Capture& capture, const ReplayRequest& request);

}  // namespace lssar::command
