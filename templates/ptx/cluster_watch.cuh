// The limit of ptx/wait_limit.cuh for barrier.cluster.wait, which the hardware performs and nobody
// can poll. The first warp of the block polls an mbarrier instead. The second warp arrives there
// after it has passed the cluster barrier, which the first warp then passes at once.
//
// The mbarrier takes the last kClusterWatchBytes of dynamic shared memory. The host adds them to
// what the kernel requests.
#pragma once

#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"

namespace lssar_device {

#ifdef LSSAR_WAIT_SPINS

class ClusterWatch {
 public:
  // Called before the arrival at the cluster barrier, which makes the new mbarrier visible to the
  // other warps.
  LSSAR_DEVICE ClusterWatch() {
    if (warp_index() != 0) return;
    if (lane_index() == 0) mbarrier_init(barrier(), 1);
    warp_barrier();
  }
  LSSAR_DEVICE void wait(u32 line) const {
    if (warp_index() != 0) return;
    SpinLimit limit(kWaitCluster, 0, 0, line);
    while (!mbarrier_try_wait(barrier(), 0)) limit.spin();
    warp_barrier();
  }
  LSSAR_DEVICE void end() const {
    if (thread_index() == kWarpThreads) mbarrier_arrive(barrier());
    if (thread_index() != 0) return;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier()) : "memory");
  }

 private:
  static LSSAR_DEVICE u32 barrier() {
    u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return swizzled_shared_address() + bytes - kClusterWatchBytes;
  }
};

#else

struct ClusterWatch {
  LSSAR_DEVICE void wait(u32) const {}
  LSSAR_DEVICE void end() const {}
};

#endif

}  // namespace lssar_device
