// Reads what the kernels of a cubin need from the ELF itself. Used by nvrtc_compiler.cpp and by
// code that is given a cubin (cache, command). A pure function.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Registers, static shared memory and stack frame of every kernel, in the order of the symbol
// table. Spills stay unknown (-1), because an ELF does not record them. The bytes are untrusted:
// every offset is checked, and kInvalidArgument says what does not fit.
Result<std::vector<KernelResources>> read_cubin_resources(std::string_view cubin);

}  // namespace lssar
