// The Hopper forward with weights in shared memory (kWeightsInShared). Each consumer writes a
// tile's rounded weights to its own rows of a shared tile, and the products with values read them
// there. This frees their registers and costs one or two stages of the ring. See
// hopper_forward_sums.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// Writes one operand of the two in ForwardSums: number 0 for o, 1 for X.
template <class Config, class Operand>
LSSAR_DEVICE void store_weights(const ForwardShared<Config>& shared, int group, int number,
                                const Operand& operand) {
  const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
  store_operand(shared.weights(number), row0, operand);
}

// Before products read what store_weights wrote.
LSSAR_DEVICE void publish_weights(int group) {
  fence_async_shared();
  consumer_barrier(group);
}

}  // namespace lssar_device
