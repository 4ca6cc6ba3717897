// Runs a problem's pass on an engine's device, with tensors in host memory: what `lssar run` and
// `lssar verify` share. Before a backward it runs the forward for training.
//
// Threads: every call stands alone; see Engine for what may be shared.
#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/model/schedule_chooser.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"
#include "tools/lssar/call/call_memory.h"
#include "tools/lssar/options/overrides.h"

namespace lssar::command {

// Contiguous [batch, heads, length, dim], rounded to the problem's dtype when they are uploaded.
struct AttentionInputs {
  std::vector<float> q, k, v;
  std::vector<float> grad_o;                            // backward only
  std::vector<float> sink = {};                         // score.sink only; not rounded
  std::vector<float> rotary_cos = {}, rotary_sin = {};  // [seq_k, rotary_dim / 2]; not rounded
  std::vector<float> alibi_slopes = {};                 // score.alibi only; not rounded
};

// Adds to inputs from files the tables of rotary positions that random inputs have.
// kInvalidArgument: the score function has sinks or slopes, which no file gives.
Status complete_inputs(const Problem& problem, const Sizes& sizes, AttentionInputs* inputs);

struct PassReport {
  std::shared_ptr<const PreparedKernel> kernel;
  ScheduleChoice choice;
  double run_ms = 0;  // the least of num_runs, by the device's clock
  int num_runs = 0;
};

struct AttentionOutputs {
  std::vector<float> o;
  std::vector<float> saved_o;                 // forward for training: what rounding took from o
  std::vector<float> grad_q, grad_k, grad_v;  // backward only
  std::vector<float> grad_sink;               // backward with score.sink only
  std::vector<PassReport> passes;             // in the order they ran
};

// o with what rounding took from it. REQUIRES: saved_o is not empty.
std::vector<float> unrounded_o(const AttentionOutputs& outputs);

// A call of sequences, whose lengths are in host memory. Its tensors hold all of them in one batch
// entry.
struct SequencesOfCall {
  Sizes sizes;
  Sequences sequences;
};

// Errors: those of Engine::prepare and Engine::execute, of ScheduleChooser, of check_overridden,
// and kOutOfMemory. Shows progress during long work of the virtual device, unless `quiet`.
Result<AttentionOutputs> run_attention(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet);
// The same for sequences; `sizes` are those of the tensors.
Result<AttentionOutputs> run_sequences(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const SequencesOfCall& sequences,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet);
// As run_attention, but leaves the tensors in `memory`, which must be empty.
Result<AttentionOutputs> run_attention(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet,
                                       CallMemory& memory);

PreparedKernels kernels_of(const std::vector<PassReport>& passes);

// Logs the line of a kernel that a command has prepared.
void log_prepared(const PreparedKernel& kernel, Engine& engine, const ScheduleChoice& choice);

// The kernel, image, origin, schedule and time of each pass. An "override" is a file that was used
// instead of the generated source.
nlohmann::json report_json(const std::vector<PassReport>& passes);

// Two lines per pass: device, compiler, origin of the kernel and time; then its schedule.
void print_report(Engine& engine, const std::vector<PassReport>& passes);

}  // namespace lssar::command
