// use_parameters_in_place: what __grid_constant__ does, which clang 19 lacks. Of the LLVM compiler
// library (llvm_module.cpp) alone. Threads: a module belongs to one.
#pragma once

namespace llvm {
class Module;
}

namespace lssar {

// Kernels of `module`, whose passes have run, use structs they take by value where the launch put
// them, instead of copying them to local memory where an address is taken: TMA takes a tensor map
// by its address, and no copy will do.
//
// REQUIRES: kernels do not write to such parameters through an address they have handed on (to
// inline assembly, say). Parameters that are written to plainly keep their copy.
void use_parameters_in_place(llvm::Module& module);

}  // namespace lssar
