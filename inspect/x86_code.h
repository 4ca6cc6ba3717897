// Machine code of CPU kernels: lists an object with the system's objdump, and finds instructions by
// class and loops, in the form of sass.h. Threads: any number at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "inspect/sass.h"

namespace lssar {

// By objdump, of binutils or of LLVM, in PATH. kMissing: neither is there. kIoError: it failed.
Result<std::string> disassemble_object(const std::string& object);

// Parses the output of `objdump -d -M intel --no-show-raw-insn`. A kernel is a function. Here
// kGlobal means loads and stores outside of the stack, kLocal loads and stores of vectors on the
// stack (spilled registers and small arrays), and kExchange moves between lanes. Products of pairs
// count as multiply-adds (kFma). A loop is hot if a third of its instructions or more are these.
// kInvalidArgument: it has no instruction.
Result<std::vector<SassKernel>> parse_x86(std::string_view listing);

}  // namespace lssar
