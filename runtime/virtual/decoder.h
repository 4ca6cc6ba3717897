// From a parsed kernel to a program: matches every instruction to a row of the opcode table, finds
// basic blocks, lays out registers and binds operands. Used when an image is loaded.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/virtual/kernel_program.h"
#include "runtime/virtual/opcode_table.h"

namespace lssar::vdev {

// `module` and `kernel` must outlive the program. The module's global variables have their
// addresses. kDeviceError names kernel, PTX line and instruction.
Result<std::unique_ptr<KernelProgram>> decode_kernel(const ParsedModule& module,
                                                     const ParsedKernel& kernel,
                                                     const OpcodeTable& table);

}  // namespace lssar::vdev
