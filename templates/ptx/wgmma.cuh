// Asynchronous products of a warp group: d[64 x N] (+)= a b, depth 16.
//
// The 128 threads hold d as a Fragment per warp: warp w of the group has rows 16 w to 16 w + 15.
// `a` comes from shared memory, or from registers in the layout of ptx/mma.cuh, 16 rows per warp.
// `b` comes from shared memory, by descriptor (tile/swizzled_tile.cuh).
//
// The registers of d and a must not be read or written from the issue of a wgmma until a wait for
// it has ended.
//
// A Wgmma is the instruction for one element type and one N. The generator writes those that a
// kernel uses:
//   template <int kTransposeA, int kTransposeB>
//   static void add_shared(float (&d)[N / 8][4], u64 a, u64 b);  // d += a b
//   template <int kTransposeB>
//   static void add_registers(float (&d)[N / 8][4], const u32 (&a)[4], u64 b);
// and begin_shared and begin_registers, which overwrite d: d = a b. Transposed means that the rows
// of the tile are the depth.
//
// NOTE: d = a b has forms of its own because clang would initialise a d that is read too, and would
// do so after the fence.
#pragma once

#include "templates/ptx/math.cuh"

namespace lssar_device {

template <class T, int N>
struct Wgmma;

// Makes registers written before this usable by the wgmma after it.
LSSAR_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
LSSAR_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending groups of this warp are in flight.
template <int kPending>
LSSAR_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

}  // namespace lssar_device
