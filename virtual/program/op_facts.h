// What the strict mode needs to know of an instruction, from its row and opcode. Used by the
// decoder.
#pragma once

#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

// All facts except the registers and what depends on them.
OpFacts facts_of_instruction(const Instruction& instruction, const Row& row);

}  // namespace lssar::vdev
