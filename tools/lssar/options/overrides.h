// LSSAR_OVERRIDE_DIR as the command sees it: which kernels are edited ones, and an error where none
// is.
//
// Threads: pure functions.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/engine.h"

namespace lssar::command {

using PreparedKernels = std::vector<std::shared_ptr<const PreparedKernel>>;

// kInvalidArgument where LSSAR_OVERRIDE_DIR is set and has a file for none of the kernels: what is
// said of them would be taken for the edited kernel's.
Status check_overridden(const PreparedKernels& kernels);

// A line for each kernel that says whether it is an edited one; nothing where LSSAR_OVERRIDE_DIR is
// not set.
void print_overrides(const PreparedKernels& kernels);

}  // namespace lssar::command
