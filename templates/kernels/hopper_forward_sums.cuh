// What pass 2 of the Hopper forward adds up: weights times values. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// The sums over keys of one chunk of value columns. Of a warp group.
template <class Config>
struct ForwardSums {
  using Shape = HopperForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kKeyTiles = Shape::BLOCK_N / kTileCols;
  using Scores = Fragment<kKeyTiles>;
  using Columns = Fragment<Shape::BLOCK_DV / kTileCols>;
  using Weights = typename Mma::template Operand<kKeyTiles>;

  Columns o, y;
  typename Mma::RowSums zs, t;
  Weights weights, slopes;

  LSSAR_DEVICE void clear() {
    o.clear();
    zs.clear();
    t.clear();
    if constexpr (Config::kNeedsX) y.clear();
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
      Mma::round(slopes, slope);
      t.add(slopes);
    }
    Mma::round(weights, s);
    zs.add(weights);
  }

  LSSAR_DEVICE void pin_registers() {
    pin(o);
    pin_operand(weights);
    if constexpr (Config::kNeedsX) {
      pin(y);
      pin_operand(slopes);
    }
  }

  LSSAR_DEVICE void start(typename Shape::ValueTile values) {
    pin_registers();
    wgmma_fence();
    start_multiply<Element>(o, weights, values);
    if constexpr (Config::kNeedsX) start_multiply<Element>(y, slopes, values);
    wgmma_commit();
  }

  LSSAR_DEVICE void finish_products() {
    wgmma_wait<0>();
    pin_registers();
  }
};

}  // namespace lssar_device
