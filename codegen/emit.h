// Turns problem + schedule + target into one self-contained source, CUDA or C++, and its launch
// recipe.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/launch_step.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// An emitted kernel: its source, and its launches in order.
struct KernelSource {
  std::string name;    // for file names and messages; not part of a key
  std::string source;  // begins with the header comment
  std::vector<LaunchStep> steps;
};

// The output is the same byte for byte at every call. Errors: those of validate(problem) and
// validate(schedule, ...).
Result<KernelSource> emit_kernel(const Problem& problem, const Schedule& schedule,
                                 const Target& target);

// "lssar_forward_bf16_d64_p15_causal".
std::string kernel_name(const Problem& problem);

// The type of the tensors' elements in emitted source: "Bf16".
const char* element_type(DType dtype);

// emit_kernel for a CPU target, which has its own steps and templates (codegen/cpu/emit_cpu.cpp).
// REQUIRES: both validate, and target.is_cpu().
KernelSource emit_cpu_kernel(const Problem& problem, const Schedule& schedule,
                             const Target& target);

// The source without its header comment. Cache keys and the test for duplicate candidates use it.
std::string source_without_header(const std::string& source);

}  // namespace lssar
