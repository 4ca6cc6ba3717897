// Asynchronous matrix multiply-accumulate of a warp group (sm_90a): d[64 x N] (+)= a b, depth 16.
//
// The 128 threads hold d as Fragment does for each warp: warp w of the group rows 16 w to 16 w
// + 15. `a` comes from shared memory or, 16 rows to a warp, from registers in the layout of
// ptx/mma.cuh; `b` from shared memory, by descriptor (tile/swizzled_tile.cuh).
//
// From issue to the end of the wait, registers of d and a may be neither read nor written.
#pragma once

#include "templates/ptx/math.cuh"

namespace lssar_device {

// The instruction for one element type and one N. The generator writes the ones a kernel uses:
//   template <int kTransposeA, int kTransposeB>
//   static void shared(float (&d)[N / 8][4], u64 a, u64 b);  // d += a b
//   template <int kTransposeB>
//   static void registers(float (&d)[N / 8][4], const u32 (&a)[4], u64 b);
// and begin_shared and begin_registers, which overwrite d: d = a b.
// Transposed: rows of the tile are the depth.
//
// NOTE: forms of their own for d = a b: were d an operand that is read too, clang would give it a
// value, whatever it is, and do so after the fence.
template <class T, int N>
struct Wgmma;

// Registers written so far may be used by the wgmma that follow.
LSSAR_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
LSSAR_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most kPending groups of this warp are in flight.
template <int kPending>
LSSAR_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

}  // namespace lssar_device
