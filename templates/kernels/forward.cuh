// Forward of LSSA and LSSAR: two passes over the keys, nothing quadratic in memory.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// A block owns kBlockRows queries of one head, 16 to a warp. With kPackGqa it owns as many queries
// of all heads that share keys (tile/query_tiles.cuh). It walks over tiles of kBlockCols keys: once
// for pass 1, then once for every kBlockDv columns of o. Causal rows run longest first.
//
// kHasPassOne, kHasPassTwo: which passes the kernel runs (forward_range.cuh has kernels that run
// one). kIsRange: its keys are a range of all keys.
//
// kSkipTiles: a warp skips the arithmetic of a tile that has no weight above kSkipWeight^p.
//
// Shared memory: the query tile, then kStages stages, each of a key tile or a value tile and
// kBlockCols reciprocal key norms.
// Barriers: one per stage (tile/pipeline.cuh); the query tile arrives with the first stage.
#pragma once

#include "templates/tile/forward_rows.cuh"
#include "templates/tile/fragment.cuh"
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
  int num_tiles;
  u32 stages;

  static constexpr int kFirstDvBlock = Config::kHasPassOne ? -1 : 0;  // -1: pass 1
  static constexpr int kEndDvBlock = Config::kHasPassTwo ? Shape::kNumDvBlocks : 0;

  int tile = 0;
  int dv_block = kFirstDvBlock;
  bool is_value = false;

  LSSAR_DEVICE void load(int stage) {
    if (num_tiles == 0 || dv_block == kEndDvBlock) return;
    const u32 base = stages + stage * Shape::kStageBytes;
    const i64 first = i64{tile} * Shape::kBlockCols;
    const i64 valid = num_keys - first;
    if (is_value) {
      const int col = dv_block * Shape::kBlockDv;
      load_tile<Shape::kThreads, Config::kIsAligned>(
          typename Shape::ValueTile{base}, values + first * value_stride + col, value_stride, valid,
          minimum(Config::kHeadDimV - col, Shape::kBlockDv));
    } else {
      load_tile<Shape::kThreads, Config::kIsAligned>(typename Shape::KeyTile{base},
                                                     keys + first * key_stride, key_stride, valid,
                                                     Config::kHeadDim);
      load_floats<Shape::kThreads, Shape::kBlockCols>(base + Shape::kTileBytes, key_norms + first,
                                                      valid);
    }
    advance();
  }

  LSSAR_DEVICE void advance() {
    if (dv_block >= 0 && !is_value) {
      is_value = true;
      return;
    }
    is_value = false;
    if (++tile == num_tiles) {
      tile = 0;
      ++dv_block;
    }
  }
};

template <class Config>
struct Forward {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  static constexpr int kValueMmaTiles = Shape::kBlockDv / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;
  using Columns = Fragment<kValueMmaTiles>;
  using Ring = Pipeline<Config::kForwardStages, ForwardLoader<Config>>;

  const AttentionParams& params;
  BlockPlace place;
  typename Shape::QueryTile queries;
  u32 stages;
  int num_tiles;
  i64 first_masked;  // tiles whose end is above this may hide keys from some row
  ForwardRows<Config> rows;

  LSSAR_DEVICE explicit Forward(const AttentionParams& params) : params(params) {}

  LSSAR_DEVICE u32 stage_address(int stage) const { return stages + stage * Shape::kStageBytes; }
  LSSAR_DEVICE bool needs_mask(i64 first) const { return first + Shape::kBlockCols > first_masked; }
  // Writes `hidden` in place of the scores or weights of keys that a row does not see.
  LSSAR_DEVICE void mask(Scores& s, i64 first, float hidden) const {
    const i64 seen[2] = {keys_in_range<Config>(params, rows.visible[0]),
                         keys_in_range<Config>(params, rows.visible[1])};
    mask_keys(s, seen, first, hidden);
  }

  LSSAR_DEVICE void finish_rows() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_index() * kWarpRows + fragment_row(half);
      rows.score_scale[half] =
          rows.scale_from_norm(half, tile_row_inverse_norm<Config, Mma>(queries, row));
    }
  }

  LSSAR_DEVICE void compute_scores(Scores& s, u32 stage) {
    s.clear();
    Mma::multiply_transposed(s, queries, warp_index() * kWarpRows, typename Shape::KeyTile{stage});
    scale_scores(s, rows.score_scale, stage + Shape::kTileBytes);
  }

  LSSAR_DEVICE void pass_one(Ring& ring, PassOneSums<Config, kKeyMmaTiles>& sums) {
    sums.clear();
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (tile == 0) finish_rows();
      compute_scores(s, stage);
      const i64 first = i64{tile} * Shape::kBlockCols;
      if (needs_mask(first)) mask(s, first, -infinity());
      sums.add(s);
    }
  }

  // One pass over keys and values for one block of value columns: sum_j w_ij v_j and, for training,
  // sum_j u_ij^(p-1) v_j, with the sums of the rounded weights.
  LSSAR_DEVICE void pass_two(Ring& ring, Columns& o, typename Mma::RowSums& zs, Columns& y,
                             typename Mma::RowSums& t) {
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (!Config::kHasPassOne && tile == 0) finish_rows();
      compute_scores(s, stage);
      const bool is_skipped = Config::kSkipTiles && rows.has_no_weights(s);
      if (!is_skipped) rows.evaluate(s);
      const i64 first = i64{tile} * Shape::kBlockCols;
      if (needs_mask(first)) mask(s, first, 0.0f);

      const typename Shape::ValueTile values{stage_address(ring.next())};
      if (is_skipped) continue;
      typename Mma::template Operand<kKeyMmaTiles> weights;
      if constexpr (Config::kNeedsX) {
        Scores slope;
#pragma unroll
        for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            slope.at[n][e] = Config::power_slope(s.at[n][e]);
            s.at[n][e] *= slope.at[n][e];
          }
        Mma::round(weights, slope);
        t.add(weights);
        Mma::multiply(y, weights, values);
      } else {
#pragma unroll
        for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
      }
      Mma::round(weights, s);
      zs.add(weights);
      Mma::multiply(o, weights, values);
    }
  }

  LSSAR_DEVICE QueryRows<Config> place_block() {
    const QueryTiles<Config, Shape::kBlockRows> tiles(params);
    const i64 num_blocks = tiles.count();
    place = block_place(num_blocks, tiles.slices);
    if (Config::kIsCausal) place.tile_idx = num_blocks - 1 - place.tile_idx;
    const QueryRows<Config> tile = tiles.rows(place, place.tile_idx);
    const i64 last = tiles.last_query(place.tile_idx);
    rows.place(params, tile, warp_index() * kWarpRows);
    const i64 most_keys = keys_in_range<Config>(params, num_visible_keys<Config>(params, last));
    num_tiles = static_cast<int>(ceil_div(most_keys, Shape::kBlockCols));
    first_masked =
        tiles.has_gaps(tile, last)
            ? 0
            : keys_in_range<Config>(params, num_visible_keys<Config>(params, tile.first));
    return tile;
  }

  // Starts the query tile's loads; returns the loader of the tiles that follow.
  LSSAR_DEVICE ForwardLoader<Config> start_loads() {
    const QueryRows<Config> tile = place_block();
    queries.base = dynamic_shared_address();
    stages = queries.base + Shape::QueryTile::kBytes;
    const int kv_head = kv_head_of<Config>(params, place);
    if constexpr (Config::kPackGqa) {
      load_packed_queries<Config, Shape::kThreads>(queries, params, place.batch, tile);
    } else {
      load_tile<Shape::kThreads, Config::kIsAligned>(
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

  LSSAR_DEVICE void run() {
    ForwardLoader<Config> loader = start_loads();
    Ring ring(loader);
    ring.start();
    PassOneSums<Config, kKeyMmaTiles> sums;
    pass_one(ring, sums);
    rows.finish_pass_one(sums);
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Columns o, y;
      typename Mma::RowSums zs, t;
      o.clear();
      y.clear();
      zs.clear();
      t.clear();
      pass_two(ring, o, zs, y, t);
      rows.write_columns(params, place, dv_block * Shape::kBlockDv, o, y,
                         {{zs.total(0), zs.total(1)}, {t.total(0), t.total(1)}});
    }
    ring.finish();
  }
};

template <class Config>
LSSAR_DEVICE void forward(const AttentionParams& params) {
  Forward<Config>(params).run();
}

}  // namespace lssar_device
