// Four consecutive warps that wgmma and the register pool address as one.
#pragma once

#include "templates/ptx/assembler.cuh"
#include "templates/ptx/index.cuh"

namespace lssar_device {

// REQUIRES: called by whole warps.
LSSAR_DEVICE int warp_group_index() { return uniform(thread_index() / kWarpGroupThreads); }
LSSAR_DEVICE int warp_group_thread() { return thread_index() & (kWarpGroupThreads - 1); }
// The lane, masked so that ptxas knows that it is not negative.
//
// Otherwise every division of the lane would handle a sign.
LSSAR_DEVICE int warp_group_lane() { return warp_group_thread() % kWarpThreads; }

// Waits at barrier `id` (1 to 15) for `threads` threads in whole warps.
//
// block_barrier uses 0.
LSSAR_DEVICE void named_barrier_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Waits like named_barrier_sync. Returns whether `condition` holds for any of the threads.
LSSAR_DEVICE bool named_barrier_any(u32 id, u32 threads, bool condition) {
  u32 result;
  asm volatile(
      "{\n"
      ".reg .pred in, out;\n"
      "setp.ne.u32 in, %3, 0;\n"
      "bar.red.or.pred out, %1, %2, in;\n"
      "selp.u32 %0, 1, 0, out;\n"
      "}"
      : "=r"(result)
      : "r"(id), "r"(threads), "r"(static_cast<u32>(condition))
      : "memory");
  return result != 0;
}
// Arrives at the barrier without waiting.
LSSAR_DEVICE void named_barrier_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Sets the warp group's registers per thread: a multiple of 8 from 24 to 240.
//
// Other groups can take what one group gives up.
template <int kRegisters>
LSSAR_DEVICE void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
LSSAR_DEVICE void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// True in one lane of the warp.
LSSAR_DEVICE bool elect_lane() {
  u32 is_elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(is_elected));
  return is_elected != 0;
}

}  // namespace lssar_device
