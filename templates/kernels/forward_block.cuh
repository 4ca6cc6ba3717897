// The place of a forward block, and its loads.
//
// A block owns kBlockRows queries of one head, 16 to a warp. With kPackGqa it owns as many queries
// of all heads that share keys (tile/query_tiles.cuh). It walks over tiles of kBlockCols keys: once
// for pass 1, where there is one, then once for every kBlockDv columns of o. Causal rows run
// longest first.
//
// kHasPassOne, kHasPassTwo: which passes the kernel runs. kIsRange: its keys are a range of all
// keys.
//
// Shared memory: the query tile, then kStages stages, each of a key tile or a value tile and
// kBlockCols reciprocal key norms.
// Barriers: one per stage (tile/pipeline.cuh); the query tile arrives with the first stage.
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/lane_rows.cuh"
#include "templates/tile/load_seen.cuh"
#include "templates/tile/load_tile.cuh"
#include "templates/tile/pipeline.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/score_fragment.cuh"

namespace lssar_device {

template <class Config>
struct ForwardShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kForwardBlockRows;
  static constexpr int kBlockCols = Config::kForwardBlockCols;
  static constexpr int kBlockDv = Config::kBlockDv;
  static constexpr int kThreads = kBlockRows / kWarpRows * kWarpThreads;
  static constexpr int kNumDvBlocks = (Config::kHeadDimV + kBlockDv - 1) / kBlockDv;

  using QueryTile = SharedTile<Element, kBlockRows, Config::kHeadDimPadded>;
  using KeyTile = SharedTile<Element, kBlockCols, Config::kHeadDimPadded>;
  using ValueTile = SharedTile<Element, kBlockCols, kBlockDv>;

  static constexpr int kTileBytes =
      KeyTile::kBytes > ValueTile::kBytes ? KeyTile::kBytes : ValueTile::kBytes;
  static constexpr int kStageBytes = kTileBytes + kBlockCols * 4;
  static constexpr int kSharedBytes = QueryTile::kBytes + Config::kForwardStages * kStageBytes;

  static_assert(kBlockRows % kWarpRows == 0, "a warp owns 16 rows");
  static_assert(kBlockCols % 16 == 0, "keys are the depth of an mma, 16 at a time");
  static_assert(kBlockDv % 16 == 0, "value matrices are loaded 16 columns at a time");
};

// The tiles in the order of their use: the keys of pass 1; then, for each block of value columns,
// the keys and values of pass 2 alternately.
template <class Config>
struct ForwardLoader {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;

  const Element* keys;
  const Element* values;
  const float* key_norms;
  i64 key_stride;
  i64 value_stride;
  i64 num_keys;
  KeyTiles<Config> num_tiles;
  u32 stages;

  static constexpr int kFirstDvBlock = Config::kHasPassOne ? -1 : 0;  // -1: pass 1
  static constexpr int kEndDvBlock = Config::kHasPassTwo ? Shape::kNumDvBlocks : 0;

  int tile = 0;
  int dv_block = kFirstDvBlock;
  bool is_value = false;

  LSSAR_DEVICE void load(int stage) {
    if (num_tiles == 0 || dv_block == kEndDvBlock) return;
    const u32 base = stages + stage * Shape::kStageBytes;
    const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
    if constexpr (Config::kHasWindow) {
      load_seen(base, first);
      return advance();
    }
    const i64 valid = num_keys - first;
    if (is_value) {
      const int col = dv_block * Shape::kBlockDv;
      load_tile<Config, Shape::kThreads>(typename Shape::ValueTile{base},
                                         values + first * value_stride + col, value_stride, valid,
                                         minimum(Config::kHeadDimV - col, Shape::kBlockDv));
    } else {
      load_tile<Config, Shape::kThreads>(typename Shape::KeyTile{base}, keys + first * key_stride,
                                         key_stride, valid, Config::kHeadDim);
      load_floats<Shape::kThreads, Shape::kBlockCols>(base + Shape::kTileBytes, key_norms + first,
                                                      valid);
    }
    advance();
  }

  LSSAR_DEVICE void load_seen(u32 base, i64 first) const {
    if (is_value) {
      const int col = dv_block * Shape::kBlockDv;
      return load_seen_tile<Config, Shape::kThreads>(
          typename Shape::ValueTile{base}, values + first * value_stride + col, value_stride,
          num_tiles.seen, first, minimum(Config::kHeadDimV - col, Shape::kBlockDv));
    }
    load_seen_tile<Config, Shape::kThreads>(typename Shape::KeyTile{base},
                                            keys + first * key_stride, key_stride, num_tiles.seen,
                                            first, Config::kHeadDim);
    load_seen_floats<Shape::kThreads, Shape::kBlockCols>(base + Shape::kTileBytes,
                                                         key_norms + first, num_tiles.seen, first);
  }

  LSSAR_DEVICE void advance() {
    is_value = dv_block >= 0 && !is_value;
    if (is_value || ++tile != num_tiles) return;
    tile = 0;
    ++dv_block;
  }
};

// Where a block works, and what it has in shared memory.
template <class Config>
struct ForwardBlock {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;

  const AttentionParams& params;
  BlockPlace place;
  typename Shape::QueryTile queries;
  u32 stages;
  KeyTiles<Config> num_tiles;
  i64 first_masked;  // tiles whose end is above this may hide keys from some row

  VisibleKeys common;  // kHasWindow: keys that no row of the block misses

  LSSAR_DEVICE explicit ForwardBlock(const AttentionParams& params) : params(params) {}

  LSSAR_DEVICE u32 stage_address(int stage) const { return stages + stage * Shape::kStageBytes; }
  LSSAR_DEVICE bool needs_mask(i64 first) const {
    if constexpr (Config::kHasWindow) return !common.has_all(first, Shape::kBlockCols);
    return first + Shape::kBlockCols > first_masked;
  }
  LSSAR_DEVICE void compute_scores(Scores& s, const float (&row_scale)[2], u32 stage) const {
    s.clear();
    Mma::multiply_transposed(s, queries, warp_index() * kWarpRows, typename Shape::KeyTile{stage});
    if constexpr (Config::kFusesScale) {
      spoil_scores(s, stage + Shape::kTileBytes);
    } else {
      scale_scores(s, row_scale, stage + Shape::kTileBytes);
    }
  }

  // kHasWindow: sets the tiles that the block visits.
  LSSAR_DEVICE void place_window(i64 first, i64 last, bool has_gaps) {
    const VisibleKeys of_first =
        keys_in_range<Config>(params, num_visible_keys<Config>(params, first));
    const VisibleKeys of_last =
        keys_in_range<Config>(params, num_visible_keys<Config>(params, last));
    num_tiles = visited_tiles<Shape::kBlockCols>(of_first, of_last);
    common = has_gaps ? VisibleKeys() : common_keys(of_first, of_last);
  }

  // Sets the block's place, its keys and the lane's `rows`; returns the rows of the tile.
  LSSAR_DEVICE QueryRows<Config> place_block(LaneRows<Config>& rows) {
    QueryRows<Config> tile;
    i64 last;       // query
    bool has_gaps;  // some rows have no query
    if constexpr (Config::kPackGqa) {
      const QueryTiles<Config, Shape::kBlockRows> tiles(params);
      place = block_place<Config>(tiles.count(), tiles.slices);
      if (Config::kIsCausal) place.tile_idx = tiles.count() - 1 - place.tile_idx;
      tile = tiles.rows(place, place.tile_idx);
      last = tiles.last_query(place.tile_idx);
      has_gaps = tiles.has_gaps(tile, last);
    } else {
      const i64 queries = seq_q<Config>(params);
      const i64 count = ceil_div(queries, Shape::kBlockRows);
      place = block_place<Config>(count, params.heads);
      if (Config::kIsCausal) place.tile_idx = count - 1 - place.tile_idx;
      tile.first = place.tile_idx * Shape::kBlockRows;
      tile.head = place.head;
      last = minimum(tile.first + Shape::kBlockRows, queries) - 1;
      has_gaps = queries < tile.first + Shape::kBlockRows;
    }
    rows.place(params, tile, warp_index() * kWarpRows);
    if constexpr (Config::kHasWindow) {
      place_window(tile.first, last, has_gaps);
    } else {
      i64 keys = num_visible_keys<Config>(params, last);
      first_masked = has_gaps ? 0 : num_visible_keys<Config>(params, tile.first);
      if constexpr (Config::kIsRange) {
        keys = keys_in_range<Config>(params, keys);
        first_masked = keys_in_range<Config>(params, first_masked);
      }
      num_tiles = static_cast<int>(ceil_div(keys, Shape::kBlockCols));
    }
    return tile;
  }

  // Places the block and starts the query tile's loads; returns the loader of further tiles.
  LSSAR_DEVICE ForwardLoader<Config> start_loads(LaneRows<Config>& rows) {
    const QueryRows<Config> tile = place_block(rows);
    queries.base = dynamic_shared_address();
    stages = queries.base + Shape::QueryTile::kBytes;
    const int kv_head = kv_head_of<Config>(params, place);
    if constexpr (Config::kPackGqa) {
      load_packed_queries<Config, Shape::kThreads>(queries, params, place.batch, tile);
    } else {
      load_tile<Config, Shape::kThreads>(
          queries, row_pointer<const Element>(params.q, place.batch, tile.head, tile.first),
          params.q.row_stride, seq_q<Config>(params) - tile.first, Config::kHeadDim);
    }
    return {row_pointer<const Element>(params.k, place.batch, kv_head, 0),
            row_pointer<const Element>(params.v, place.batch, kv_head, 0),
            params.k_inv_norm +
                (i64{place.batch} * params.kv_heads + kv_head) * key_norm_pitch<Config>(params),
            params.k.row_stride,
            params.v.row_stride,
            seq_k<Config>(params),
            num_tiles,
            stages};
  }
};

}  // namespace lssar_device
