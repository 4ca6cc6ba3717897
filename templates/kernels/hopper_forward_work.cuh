// Work tiles, computed alike by producer and consumers.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/tile/cluster_tiles.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// One tile of queries.
//
// All blocks of a cluster process the same number of key tiles: as many as their last query needs.
template <class Config>
struct ForwardWork {
  using Shape = HopperForwardShape<Config>;

  BlockPlace place;
  i64 first_row;                 // within the slice (tile/query_tiles.cuh)
  KeyTiles<Config> score_tiles;  // key tiles of pass 1
  KeyTiles<Config> tiles;        // of pass 2

  LSSAR_DEVICE ForwardWork(const AttentionParams& params, const BlockPlace& at) : place(at) {
    const i64 first = place.tile_idx * Shape::kWorkRows;
    first_row = first;
    if constexpr (Shape::kCluster > 1) first_row += cluster_rank() * Shape::kBlockRows;
    if constexpr (Config::kHasWindow) {
      place_window(params, first);
    } else {
      const i64 keys =
          num_visible_keys<Config>(params, last_query(params, first + Shape::kWorkRows));
      score_tiles = static_cast<int>(ceil_div(keys, Shape::kScoreCols));
      tiles = static_cast<int>(ceil_div(keys, Shape::kBlockCols));
    }
  }

  LSSAR_DEVICE void place_window(const AttentionParams& params, i64 first) {
    const VisibleKeys of_first = num_visible_keys<Config>(params, first_query(params, first));
    const VisibleKeys of_last =
        num_visible_keys<Config>(params, last_query(params, first + Shape::kWorkRows));
    score_tiles = visited_tiles<Shape::kScoreCols>(of_first, of_last);
    tiles = visited_tiles<Shape::kBlockCols>(of_first, of_last);
  }

  // kIsGeneral: whether some row of the tile sees few keys, in any block of the cluster. The first
  // query sees the fewest.
  LSSAR_DEVICE bool has_few_keys(const AttentionParams& params) const {
    const i64 first = place.tile_idx * Shape::kWorkRows;
    if constexpr (Config::kHasWindow) return has_few_in_window(params, first);
    i64 query = first;
    if constexpr (Config::kPackGqa) {
      const typename Shape::QueryTiles tiles(params);
      query = tiles.rows(place, first / kWarpGroupRows).query(0);
    }
    return lssar_device::has_few_keys<Config>(num_visible_keys<Config>(params, query));
  }

  // The same with a window, in which any row may see the fewest.
  LSSAR_DEVICE bool has_few_in_window(const AttentionParams& params, i64 first) const {
    const i64 last = last_query(params, first + Shape::kWorkRows);
#pragma unroll 1
    for (i64 query = first_query(params, first); query <= last; ++query)
      if (lssar_device::has_few_keys<Config>(num_visible_keys<Config>(params, query))) return true;
    return false;
  }

  // kHasWindow: the query of the slice's row `first`.
  LSSAR_DEVICE i64 first_query(const AttentionParams& params, i64 first) const {
    if constexpr (!Config::kPackGqa) return first;
    return typename Shape::QueryTiles(params).first_query(first / kWarpGroupRows);
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

// Slices of a batch entry, and tiles of kWorkRows rows of each (tile/query_tiles.cuh).
template <class Config>
LSSAR_DEVICE int num_slices(const AttentionParams& params) {
  return Config::kPackGqa ? params.kv_heads : params.heads;
}
template <class Config>
LSSAR_DEVICE i64 tiles_of_slice(const AttentionParams& params) {
  using Shape = HopperForwardShape<Config>;
  if constexpr (!Config::kPackGqa) return ceil_div(seq_q<Config>(params), Shape::kWorkRows);
  return ceil_div(typename Shape::QueryTiles(params).num_rows(), Shape::kWorkRows);
}

// A chain is what a block takes at a time: a query tile.
//
// With kStagger > 1 it is that many neighbouring ones of a head; the last chain of a head may have
// fewer (hopper_forward_staggered.cuh).
template <class Config>
LSSAR_DEVICE u32 num_chains(const AttentionParams& params) {
  const i64 chains = ceil_div(tiles_of_slice<Config>(params), Config::kStagger);
  return static_cast<u32>(chains * num_slices<Config>(params) * params.batch);
}
template <class Config>
LSSAR_DEVICE BlockPlace chain_place(const AttentionParams& params, u32 index) {
  if constexpr (Config::kHasLengths) index = block_of_sequence;
  const i64 chains = ceil_div(tiles_of_slice<Config>(params), Config::kStagger);
  const int slices = num_slices<Config>(params);
  return work_place<Config::kHeadGroup, Config::kIsCausal>(index, chains, slices,
                                                           params.batch * slices);
}

}  // namespace lssar_device
