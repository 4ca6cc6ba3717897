// What pass 2 of the Hopper forward adds up: weights times values. See hopper_forward.cuh.
//
// The weights of a tile are the products' operand in registers or, with kWeightsInShared, in rows
// of the consumer's own of a tile in shared memory.
#pragma once

#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// The sums over keys of one dv_block of value columns. Of a warp group.
template <class Config>
struct ForwardSums {
  using Shape = HopperForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kKeyTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyTiles>;
  using Columns = Fragment<Shape::kBlockDv / kTileCols>;
  using Weights = typename Mma::template Operand<kKeyTiles>;

  ForwardShared<Config> shared;
  int group;  // of the consumers
  Columns o, y;
  typename Mma::RowSums zs, t;
  Weights weights, slopes;  // without kWeightsInShared

  LSSAR_DEVICE ForwardSums(ForwardShared<Config> s, int g) : shared(s), group(g) {}

  LSSAR_DEVICE void clear() {
    o.clear();
    zs.clear();
    t.clear();
    if constexpr (Config::kNeedsX) y.clear();
  }

  // Rounds `x` for a product to come and adds it up as rounded.
  LSSAR_DEVICE void round_to(Weights& operand, int which, typename Mma::RowSums& sum,
                             const Scores& x) {
    if constexpr (Config::kWeightsInShared) {
      Weights rounded;
      Mma::round(rounded, x);
      sum.add(rounded);
      const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
      store_operand(shared.weights(which), row0, rounded);
    } else {
      Mma::round(operand, x);
      sum.add(operand);
    }
  }

  // REQUIRES: no product of the last weights is in flight.
  LSSAR_DEVICE void round(Scores& s) {
    if constexpr (Config::kNeedsX) {
      Scores slope;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          slope.at[n][e] = Config::power_slope(s.at[n][e]);
          s.at[n][e] *= slope.at[n][e];
        }
      round_to(slopes, 1, t, slope);
    }
    round_to(weights, 0, zs, s);
    if constexpr (Config::kWeightsInShared) {
      fence_async_shared();
      consumer_barrier(group);
    }
  }

  LSSAR_DEVICE void pin_registers() {
    pin(o);
    if constexpr (Config::kNeedsX) pin(y);
    if constexpr (!Config::kWeightsInShared) {
      pin_operand(weights);
      if constexpr (Config::kNeedsX) pin_operand(slopes);
    }
  }

  LSSAR_DEVICE void start(typename Shape::ValueTile values) {
    pin_registers();
    wgmma_fence();
    if constexpr (Config::kWeightsInShared) {
      start_multiply(o, shared.weights(0), group * kWarpGroupRows, values);
      if constexpr (Config::kNeedsX)
        start_multiply(y, shared.weights(1), group * kWarpGroupRows, values);
    } else {
      start_multiply<Element>(o, weights, values);
      if constexpr (Config::kNeedsX) start_multiply<Element>(y, slopes, values);
    }
    wgmma_commit();
  }

  LSSAR_DEVICE void finish_products() {
    wgmma_wait<0>();
    pin_registers();
  }
};

}  // namespace lssar_device
