// From problem + schedule + target to one self-contained CUDA source and its launch recipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// The rows a launch's blocks are cut from.
enum class GridRows {
  kQueries,  // seq_q rows of every (batch, head)
  kKeys,     // seq_k rows of every (batch, kv head)
};

// One kernel launch: grid.x = ceil(rows / rows_per_block) * heads-or-kv_heads * batch.
// Every kernel takes one lssar_device::AttentionParams by value.
struct LaunchStep {
  std::string entry;  // the kernel's name in the source
  GridRows grid_rows = GridRows::kQueries;
  int rows_per_block = 0;
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory

  bool operator==(const LaunchStep&) const = default;
};

// An emitted kernel: the source and how to launch it, in order.
struct KernelSource {
  std::string name;    // "lssar_forward_bf16_d64": of files and messages, not of a key
  std::string source;  // begins with the header comment
  std::vector<LaunchStep> steps;
};

// Byte-for-byte deterministic. Errors: those of validate(problem) and validate(schedule, ...).
Result<KernelSource> emit_kernel(const Problem& problem, const Schedule& schedule,
                                 const Target& target);

// The source without its header comment: what identity (cache key, duplicate candidates) is
// decided on.
std::string source_without_header(const std::string& source);

// The actual sizes of one call. A length the problem fixes must equal the problem's.
struct Sizes {
  int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0;
};

// Where the workspace's parts lie: byte offsets, each 256-aligned, and the total. A part that the
// pass does not use has size 0.
struct WorkspaceLayout {
  size_t q_inv_norm = 0;
  size_t k_inv_norm = 0;
  size_t row_constants = 0;
  size_t grad_q_sum = 0;
  size_t total_bytes = 0;
};
// kInvalidArgument where a size overflows.
Result<WorkspaceLayout> workspace_layout(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes);

// Bytes of what the forward for training saves (see AttentionParams); 0 = not needed.
struct SavedBytes {
  size_t o = 0, stats = 0, x = 0;
};
Result<SavedBytes> saved_bytes(const Problem& problem, const Sizes& sizes);

// Whether the backward needs X: re-weighting with an offset.
bool needs_x(const Problem& problem);

}  // namespace lssar
