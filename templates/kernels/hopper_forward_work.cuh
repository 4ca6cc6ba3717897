// The work tiles of the Hopper forward, computed alike by producer and consumers.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/tile/cluster_tiles.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// One tile of queries. All blocks of a cluster process the same number of key tiles: as many as
// their last query needs.
template <class Config>
struct ForwardWork {
  using Shape = HopperForwardShape<Config>;

  BlockPlace place;
  i64 first_row;    // within the slice (tile/query_tiles.cuh)
  int score_tiles;  // key tiles of pass 1
  int tiles;        // of pass 2

  LSSAR_DEVICE ForwardWork(const AttentionParams& params, const BlockPlace& at) : place(at) {
    const i64 first = place.tile_idx * Shape::kWorkRows;
    first_row = first;
    if constexpr (Shape::kCluster > 1) first_row += cluster_rank() * Shape::kBlockRows;
    const i64 keys = num_visible_keys<Config>(params, last_query(params, first + Shape::kWorkRows));
    score_tiles = static_cast<int>(ceil_div(keys, Shape::kScoreCols));
    tiles = static_cast<int>(ceil_div(keys, Shape::kBlockCols));
  }

  // kIsGeneral: whether some row of the tile sees few keys, in any block of the cluster. The first
  // query sees the fewest.
  LSSAR_DEVICE bool has_few_keys(const AttentionParams& params) const {
    const i64 first = place.tile_idx * Shape::kWorkRows;
    i64 query = first;
    if constexpr (Config::kPackGqa) {
      const typename Shape::QueryTiles tiles(params);
      query = tiles.rows(place, first / kWarpGroupRows).query(0);
    }
    return lssar_device::has_few_keys<Config>(num_visible_keys<Config>(params, query));
  }

  // The last query among the slice's rows below `end`.
  static LSSAR_DEVICE i64 last_query(const AttentionParams& params, i64 end) {
    if constexpr (!Config::kPackGqa) return minimum(end, seq_q<Config>(params)) - 1;
    const typename Shape::QueryTiles tiles(params);
    return tiles.last_query(minimum(end / kWarpGroupRows, tiles.count()) - 1);
  }

  LSSAR_DEVICE QueryRows<Config> rows_of(const AttentionParams& params, int consumer) const {
    const i64 row = first_row + consumer * kWarpGroupRows;
    if constexpr (!Config::kPackGqa) return {row, place.head, 1, kWarpGroupRows};
    return typename Shape::QueryTiles(params).rows(place, row / kWarpGroupRows);
  }
};

// What a block takes at a time: a query tile, or kStagger neighbouring ones of a head. The last
// chain of a head may have fewer.
template <class Config>
struct ForwardChain {
  using Shape = HopperForwardShape<Config>;

  BlockPlace place;  // of the chain
  int count;         // kStagger > 1: query tiles

  LSSAR_DEVICE ForwardChain(const AttentionParams& params, u32 index) {
    const i64 tiles = ceil_div(rows_of_slice(params), Shape::kWorkRows);
    place = work_place<Config::kHeadGroup, Config::kIsCausal>(
        index, ceil_div(tiles, Config::kStagger), slices(params), params.batch * slices(params));
    if constexpr (Shape::kIsStaggered) {
      const i64 left = tiles - place.tile_idx * Config::kStagger;
      count = static_cast<int>(minimum(left, i64{Config::kStagger}));
    }
  }

  // kStagger > 1: query tile i of the chain. None sees more keys than the one before it.
  LSSAR_DEVICE ForwardWork<Config> query_tile(const AttentionParams& params, int i) const {
    BlockPlace at = place;
    at.tile_idx = place.tile_idx * Config::kStagger + count - 1 - i;
    return {params, at};
  }

  // Rows of a slice (tile/query_tiles.cuh), including rows without a query.
  static LSSAR_DEVICE i64 rows_of_slice(const AttentionParams& params) {
    if constexpr (!Config::kPackGqa) return seq_q<Config>(params);
    return typename Shape::QueryTiles(params).num_rows();
  }
  // Slices of a batch entry.
  static LSSAR_DEVICE int slices(const AttentionParams& params) {
    return Config::kPackGqa ? params.kv_heads : params.heads;
  }

  // Chains of all heads.
  static LSSAR_DEVICE u32 total(const AttentionParams& params) {
    const i64 chains = ceil_div(rows_of_slice(params), i64{Shape::kWorkRows} * Config::kStagger);
    return static_cast<u32>(chains * slices(params) * params.batch);
  }
};

}  // namespace lssar_device
