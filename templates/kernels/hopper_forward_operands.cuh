// Operands of the Hopper forward in other places than by default.
//
// kQueriesInRegisters: a consumer reads its queries once, and products take them from registers.
// The query tile is then free for the next queries.
//
// kWeightsInShared: each consumer writes a tile's rounded weights to its own rows of a shared tile,
// and the products with values read them there. This frees their registers and costs one or two
// stages of the ring.
//
// See hopper_forward.cuh and hopper_forward_sums.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

template <class Config>
struct QueriesInRegisters {
  ColumnsOperand<typename Config::Element, Config::kHeadDim> operand;

  // `row0` is the warp's first row. Nobody reads the tile afterwards.
  template <class QueryTile>
  LSSAR_DEVICE void load(QueryTile tile, int row0) {
    warp_barrier();  // four lanes scale a row and other lanes read it
    load_operand(operand, tile, row0);
  }

  template <int kTiles, class KeyTile>
  LSSAR_DEVICE void start_scores(Fragment<kTiles>& s, KeyTile keys) const {
    start_multiply_transposed<typename Config::Element, Config::kHeadDim>(s, operand, keys);
  }
};

// kWeightsInShared: writes one operand of the two in ForwardSums: number 0 for o, 1 for X.
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
