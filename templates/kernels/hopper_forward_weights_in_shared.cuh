// The Hopper forward with weights in shared memory (kWeightsInShared). Each consumer writes a
// tile's rounded weights to its own rows of a shared tile, and the products with values read them
// there. This frees their registers and costs one or two stages of the ring. See
// hopper_forward_sums.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// One operand of the two in ForwardSums: number 0 for o, 1 for X.
template <class Config, int kNumber>
struct WeightsInShared {
  using Mma = TileMma16<typename Config::Element>;

  template <int kTiles>
  LSSAR_DEVICE void round(const ForwardShared<Config>& shared, int group,
                          typename Mma::RowSums& sum, const Fragment<kTiles>& x) {
    typename Mma::template Operand<kTiles> rounded;
    Mma::round(rounded, x);
    if constexpr (Config::kDivisorSum == 1) sum.add(rounded);
    if constexpr (Config::kDivisorSum == 2) sum.add_magnitudes(rounded);
    const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
    store_operand(shared.weights(kNumber), row0, rounded);
  }

  // Before products read what round() wrote.
  static LSSAR_DEVICE void publish(int group) {
    fence_async_shared();
    consumer_barrier(group);
  }

  LSSAR_DEVICE void pin_registers() {}

  template <int kTiles, class ValueTile>
  LSSAR_DEVICE void start_product(Fragment<kTiles>& sum, const ForwardShared<Config>& shared,
                                  int group, ValueTile values) const {
    start_multiply(sum, shared.weights(kNumber), group * kWarpGroupRows, values);
  }
};

}  // namespace lssar_device
