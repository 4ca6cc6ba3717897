// use_parameters_in_place: does what __grid_constant__ does, which clang 19 lacks. Used by the LLVM
// compiler's library (llvm_module.cpp) only. Threads: a module belongs to one.
#pragma once

namespace llvm {
class Module;
}

namespace lssar {

// Makes kernels of `module`, whose passes have run, use by-value structs where the launch put them.
// Without this a kernel that takes the address of such a struct copies it to local memory. TMA
// takes a tensor map by its address, and a copy does not work.
//
// REQUIRES: kernels do not write to such parameters through an address that they pass on (for
// example, to inline assembly). Parameters that are written to directly keep their copy.
void use_parameters_in_place(llvm::Module& module);

}  // namespace lssar
