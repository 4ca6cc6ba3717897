// LSSAR_OVERRIDE_DIR in the command: says which kernels were edited, and fails if none was.
//
// Threads: pure functions.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "runtime/engine.h"

namespace lssar::command {

using PreparedKernels = std::vector<std::shared_ptr<const PreparedKernel>>;

// kInvalidArgument if LSSAR_OVERRIDE_DIR is set and has a file for none of the kernels. Otherwise
// results would be taken for the edited kernel's.
Status check_overridden(const PreparedKernels& kernels);

// Prints a line for each kernel that says whether it is an edited one; nothing if
// LSSAR_OVERRIDE_DIR is not set.
void print_overrides(const PreparedKernels& kernels);

}  // namespace lssar::command
