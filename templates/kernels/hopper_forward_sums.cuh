// The sums of pass 2: weights times values.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/kernels/hopper_forward_operands.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/lane_sums.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// The sums over keys for one block of value columns. A warp group.
template <class Config>
struct ForwardSums {
  using Shape = HopperForwardShape<Config>;
  using Mma = typename Config::Mma;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;
  using Columns = Fragment<Shape::kBlockDv / kTileCols>;
  using Operand = typename Mma::template Operand<kKeyMmaTiles>;

  ForwardShared<Config> shared;
  int group;  // index among the consumers
  Columns o, y;
  // Whether weights are added before they are rounded. LSSAR's gradients, and scores whose largest
  // weight is not 1, need the sum of rounded weights: o of a row with few weights is then their
  // mean.
  static constexpr bool kAddsUnrounded = Config::kIsGeneral
                                             ? Config::kIsExponential && Config::kSecondStage == 0
                                             : !Config::kIsTraining;
  typename Select<kAddsUnrounded, LaneSums, typename Mma::RowSums>::Type zs, t;
  bool takes_remainders = false;  // kIsGeneral: what rounding drops is added, instead of weights
  Operand weights;                // rounded, of a tile
  Operand slopes;                 // kNeedsX: u^(p-1), the same for X

  LSSAR_DEVICE ForwardSums(ForwardShared<Config> s, int g) : shared(s), group(g) {
    o.clear();
    if constexpr (Config::kNeedsX) y.clear();
  }

  // Adds up a tile's weights and rounds them. REQUIRES: no product of the last ones is in flight.
  // NOTE: products with ones waited for the other consumer's products, a tenth of an H100's pass 2.
  LSSAR_DEVICE void round(Scores& s) {
    if constexpr (Config::kNeedsX) {
      Scores slope;
#pragma unroll
      for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          slope.at[n][e] = Config::power_slope(s.at[n][e]);
          s.at[n][e] *= slope.at[n][e];
        }
      Mma::round(slopes, slope);
      t.add(slopes);
      if constexpr (Config::kWeightsInShared) store_weights(shared, group, 1, slopes);
    }
    if constexpr (kAddsUnrounded) add_weights(s);
    if constexpr (Config::kIsGeneral) {
      if (takes_remainders) {
        Operand rounded;
        Mma::round(rounded, s);
        Mma::subtract(s, rounded);
      }
    }
    Mma::round(weights, s);
    if constexpr (!kAddsUnrounded) add_weights(weights);
    if constexpr (Config::kWeightsInShared) {
      store_weights(shared, group, 0, weights);
      publish_weights(group);
    }
  }

  template <class Weights>
  LSSAR_DEVICE void add_weights(const Weights& w) {
    if constexpr (Config::kDivisorSum == 1) zs.add(w);
    if constexpr (Config::kDivisorSum == 2) zs.add_magnitudes(w);
  }

  // REQUIRES: no product is in flight.
  LSSAR_DEVICE void rescale(const float (&by)[2]) {
    multiply_rows(o, by);
    zs.rescale(by);
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
      start_multiply<typename Config::Element>(o, weights, values);
      if constexpr (Config::kNeedsX) start_multiply<typename Config::Element>(y, slopes, values);
    }
    wgmma_commit();
  }

  LSSAR_DEVICE void finish_products() {
    wgmma_wait<0>();
    pin_registers();
  }
};

}  // namespace lssar_device
