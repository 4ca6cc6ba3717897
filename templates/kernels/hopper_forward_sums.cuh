// The sums of pass 2 of the Hopper forward: weights times values. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/kernels/hopper_forward_weights_in_shared.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// A tile's rounded weights as the operand of products, in registers.
template <class Config>
struct WeightsInRegisters {
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kKeyMmaTiles = HopperForwardShape<Config>::kBlockCols / kTileCols;

  typename Mma::template Operand<kKeyMmaTiles> operand;

  LSSAR_DEVICE void round(const ForwardShared<Config>&, int, typename Mma::RowSums& sum,
                          const Fragment<kKeyMmaTiles>& x) {
    Mma::round(operand, x);
    if constexpr (Config::kDivisorSum == 1) sum.add(operand);
    if constexpr (Config::kDivisorSum == 2) sum.add_magnitudes(operand);
  }
  static LSSAR_DEVICE void publish(int) {}
  LSSAR_DEVICE void pin_registers() { pin_operand(operand); }

  template <int kTiles, class ValueTile>
  LSSAR_DEVICE void start_product(Fragment<kTiles>& sum, const ForwardShared<Config>&, int,
                                  ValueTile values) const {
    start_multiply<Element>(sum, operand, values);
  }
};

// The sums over keys for one block of value columns. A warp group.
template <class Config>
struct ForwardSums {
  using Shape = HopperForwardShape<Config>;
  using Mma = TileMma16<typename Config::Element>;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;
  using Columns = Fragment<Shape::kBlockDv / kTileCols>;
  template <int kNumber>
  using Weights = typename Select<Config::kWeightsInShared, WeightsInShared<Config, kNumber>,
                                  WeightsInRegisters<Config>>::Type;

  ForwardShared<Config> shared;
  int group;  // index among the consumers
  Columns o, y;
  typename Mma::RowSums zs, t;
  bool takes_remainders = false;  // kIsGeneral: what rounding drops is added, instead of weights
  Weights<0> weights;
  Weights<1> slopes;

  LSSAR_DEVICE ForwardSums(ForwardShared<Config> s, int g) : shared(s), group(g) {}

  LSSAR_DEVICE void clear() {
    o.clear();
    zs.clear();
    t.clear();
    if constexpr (Config::kNeedsX) y.clear();
  }

  // Rounds a tile's weights for the next product and adds up the rounded values. REQUIRES: no
  // product of the last weights is in flight.
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
      slopes.round(shared, group, t, slope);
    }
    if constexpr (Config::kIsGeneral) {
      if (takes_remainders) {
        typename Mma::template Operand<kKeyMmaTiles> rounded;
        Mma::round(rounded, s);
        Mma::subtract(s, rounded);
      }
    }
    weights.round(shared, group, zs, s);
    weights.publish(group);
  }

  // REQUIRES: no product is in flight.
  LSSAR_DEVICE void rescale(const float (&by)[2]) {
    multiply_rows(o, by);
    zs.rescale(by);
  }

  LSSAR_DEVICE void pin_registers() {
    pin(o);
    if constexpr (Config::kNeedsX) pin(y);
    weights.pin_registers();
    if constexpr (Config::kNeedsX) slopes.pin_registers();
  }

  LSSAR_DEVICE void start(typename Shape::ValueTile values) {
    pin_registers();
    wgmma_fence();
    weights.start_product(o, shared, group, values);
    if constexpr (Config::kNeedsX) slopes.start_product(y, shared, group, values);
    wgmma_commit();
  }

  LSSAR_DEVICE void finish_products() {
    wgmma_wait<0>();
    pin_registers();
  }
};

}  // namespace lssar_device
