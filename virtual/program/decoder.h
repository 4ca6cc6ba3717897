// Turns a parsed kernel into a program: matches every instruction to a row of the opcode table,
// finds basic blocks, lays out registers and binds operands. Used when an image is loaded.
#pragma once

#include <memory>

#include "virtual/program/kernel_program.h"
#include "virtual/program/opcode_table.h"

namespace lssar::vdev {

// `module` and `kernel` must outlive the program. REQUIRES: the module's global variables have
// addresses, and opcodes are in the order of the table's rows. If the kernel cannot be run, the
// program's `refusal` (kUnsupported) names it with the PTX line and text of each such instruction.
// The other kernels of the module can still be run.
std::unique_ptr<KernelProgram> decode_kernel(const ParsedModule& module, const ParsedKernel& kernel,
                                             const OpcodeTable& table);

}  // namespace lssar::vdev
