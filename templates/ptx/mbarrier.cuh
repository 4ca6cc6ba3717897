// Barriers in shared memory that count arrivals and bytes, by address.
//
// They have 8 bytes each (sm_90). A wait names the parity of the phase that it waits for. A new
// barrier is in phase 0, so a wait for parity 1 succeeds at once. Whatever a barrier guards is
// therefore free at first.
#pragma once

#include "templates/ptx/types.cuh"
#include "templates/ptx/wait_limit.cuh"

namespace lssar_device {

LSSAR_DEVICE void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Makes inits visible to asynchronous copies and to the cluster.
//
// Other threads of the block still need a block_barrier().
LSSAR_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

LSSAR_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and adds `bytes` to what asynchronous copies must bring before the phase ends.
LSSAR_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

LSSAR_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 is_done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(is_done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return is_done != 0;
}

LSSAR_DEVICE void mbarrier_wait(u32 barrier, u32 parity, u32 line = LSSAR_CALLER_LINE) {
  SpinLimit limit(kWaitMbarrier, barrier, parity, line);
  while (!mbarrier_try_wait(barrier, parity)) limit.spin();
}

}  // namespace lssar_device
