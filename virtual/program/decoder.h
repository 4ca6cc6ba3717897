// From a parsed kernel to a program: matches every instruction to a row of the opcode table, finds
// basic blocks, lays out registers and binds operands. Used when an image is loaded.
#pragma once

#include <memory>

#include "virtual/program/kernel_program.h"
#include "virtual/program/opcode_table.h"

namespace lssar::vdev {

// `module` and `kernel` must outlive the program. The module's global variables have their
// addresses, opcodes the order of the table's rows. Where the kernel cannot be run, the program's
// `refusal` (kUnsupported) names it with the PTX line and text of each such instruction, so that
// the other kernels of a module can.
std::unique_ptr<KernelProgram> decode_kernel(const ParsedModule& module, const ParsedKernel& kernel,
                                             const OpcodeTable& table);

}  // namespace lssar::vdev
