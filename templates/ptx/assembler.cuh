// Values hidden from the compiler, which would make worse code of them.
//
// docs/hopper_assembler.md says what each gives with ptxas 13.0. The test tools_assembler compiles
// kernels with and without each, and fails for what no longer helps.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

// The same value, but opaque to the compiler, which moves no use of `x` above this point.
//
// So it does not move one above a wait, and does not keep or split the values from which `x` was
// computed.
LSSAR_DEVICE void pin_register(float& x) { asm volatile("" : "+f"(x)::"memory"); }
LSSAR_DEVICE void pin_register(u32& x) { asm volatile("" : "+r"(x)::"memory"); }
LSSAR_DEVICE void pin_register(int& x) { asm volatile("" : "+r"(x)::"memory"); }
LSSAR_DEVICE void pin_register(i64& x) { asm volatile("" : "+l"(x)::"memory"); }

// `x`, which must be the same in all lanes, such that ptxas knows that. Called by whole warps.
//
// From the exchange ptxas learns that it is uniform, and then keeps it and values derived from it
// in no per-lane registers.
LSSAR_DEVICE int uniform(int x) {
  int result;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(result) : "r"(x));
  return result;
}

}  // namespace lssar_device
