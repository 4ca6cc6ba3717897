// The Hopper forward with queries in registers (kQueriesInRegisters). A consumer reads its queries
// once, and products take them from registers. The query tile is then free for the next queries.
// See hopper_forward.cuh.
#pragma once

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

}  // namespace lssar_device
