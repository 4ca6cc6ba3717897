// Runs a problem through the C API from host vectors. Used by the golden and sweep tests.
//
// Tensors are float32 and contiguous [batch, heads, length, dim] here. run_capi rounds them to the
// problem's dtype, lays them out as requested, and checks that nothing outside of the outputs was
// written. Threads: several may call run_capi with one context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "lssar/lssar.h"

namespace lssar {

struct ContextDeleter {
  void operator()(lssar_context* context) const { lssar_context_destroy(context); }
};
using ContextPtr = std::unique_ptr<lssar_context, ContextDeleter>;

struct PlanDeleter {
  void operator()(lssar_plan* plan) const { lssar_plan_destroy(plan); }
};
using PlanPtr = std::unique_ptr<lssar_plan, PlanDeleter>;

// The Status of this thread's call that returned `status`, with its detail.
Status to_status(lssar_status status);

// `cache_directory` "": the default one.
Result<ContextPtr> open_context(lssar_device device, lssar_compiler compiler = LSSAR_COMPILER_AUTO,
                                const std::string& target = "",
                                const std::string& cache_directory = "");

// problem.pass is ignored; an alignment of 16 becomes `alignment`.
lssar_problem to_c(const Problem& problem, uint32_t passes, int32_t alignment = 0);
lssar_sizes to_c(const Sizes& sizes);

enum class Layout {
  kContiguous,   // [batch, heads, length, dim]
  kLengthMajor,  // [batch, length, heads, dim]
  kPadded,       // rows 8 elements longer than dim
  kUnaligned,    // begins one element after a 16-byte boundary, rows one element longer than dim
};

struct CapiOptions {
  uint32_t passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  Layout layout = Layout::kContiguous;
  bool fixes_lengths = false;  // the plan is made for these lengths
  bool fixes_queries = false;  // and for this number of queries, but for any number of keys
  int32_t alignment = 0;       // as lssar_problem.alignment
  std::string schedule_json;
  // The backward's schedule, which then has a plan of its own; "": that of the other passes. So
  // backwards with different schedules can share one forward for training.
  std::string backward_schedule_json = {};
  bool wants_row_stats = false;  // of forward
};

struct CapiInputs {
  std::vector<float> q, k, v;
  std::vector<float> grad_o;                            // for the backward
  std::vector<float> sink = {};                         // with score.sink
  std::vector<float> rotary_cos = {}, rotary_sin = {};  // with rotary_dim: [seq_k, rotary_dim / 2]
  std::vector<float> alibi_slopes = {};                 // with score.alibi
};

struct CapiOutputs {
  std::vector<float> o;        // of forward; without it, of forward-train
  std::vector<float> o_train;  // of forward-train
  std::vector<float> saved_stats;
  std::vector<float> row_stats;  // of forward, if requested
  std::vector<float> grad_q, grad_k, grad_v;
  std::vector<float> grad_sink;
};

// Runs the passes in the order forward, forward-train, backward. Outputs are NaN before, so that
// what a kernel leaves out shows.
Result<CapiOutputs> run_capi(lssar_context* context, const Problem& problem, const Sizes& sizes,
                             const CapiInputs& inputs, const CapiOptions& options = {});

}  // namespace lssar
