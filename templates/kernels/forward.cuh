// Forward of LSSA and LSSAR: two passes over the keys, nothing quadratic in memory.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// A block owns BLOCK_M queries of one head, 16 to a warp, or with kPackGqa as many of all heads
// that share keys (tile/query_tiles.cuh), and walks over tiles of BLOCK_N keys: once for pass 1,
// then once for every BLOCK_DV columns of o. Rows of a causal problem run longest first.
//
// kHasPassOne, kHasPassTwo: whether a kernel runs both (forward_range.cuh has those that run one).
// kIsRange: its keys are a range of all.
//
// kSkipTiles: a warp whose tile has no score with a weight above kSkipWeight^p leaves it at that.
//
// Shared memory: the query tile, then kStages stages, each of a key tile or a value tile and
// BLOCK_N reciprocal key norms.
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
  static constexpr int BLOCK_M = Config::kForwardRows;
  static constexpr int BLOCK_N = Config::kForwardCols;
  static constexpr int BLOCK_DV = Config::kBlockDv;
  static constexpr int kThreads = BLOCK_M / kWarpRows * kWarpThreads;
  static constexpr int kNumChunks = (Config::kHeadDimV + BLOCK_DV - 1) / BLOCK_DV;

  using QueryTile = SharedTile<Element, BLOCK_M, Config::kHeadDimPadded>;
  using KeyTile = SharedTile<Element, BLOCK_N, Config::kHeadDimPadded>;
  using ValueTile = SharedTile<Element, BLOCK_N, BLOCK_DV>;

  static constexpr int kTileBytes =
      KeyTile::kBytes > ValueTile::kBytes ? KeyTile::kBytes : ValueTile::kBytes;
  static constexpr int kStageBytes = kTileBytes + BLOCK_N * 4;
  static constexpr int kSharedBytes = QueryTile::kBytes + Config::kForwardStages * kStageBytes;

  static_assert(BLOCK_M % kWarpRows == 0, "a warp owns 16 rows");
  static_assert(BLOCK_N % 16 == 0, "keys are the depth of an mma, 16 at a time");
  static_assert(BLOCK_DV % 16 == 0, "value matrices are loaded 16 columns at a time");
};

// The tiles in the order of their use: the keys of pass 1, then per chunk of columns the keys and
// values of pass 2 in turns.
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

  static constexpr int kFirstChunk = Config::kHasPassOne ? -1 : 0;  // -1: pass 1
  static constexpr int kEndChunk = Config::kHasPassTwo ? Shape::kNumChunks : 0;

  int tile = 0;
  int chunk = kFirstChunk;
  bool is_value = false;

  LSSAR_DEVICE void load(int stage) {
    if (num_tiles == 0 || chunk == kEndChunk) return;
    const u32 base = stages + stage * Shape::kStageBytes;
    const i64 first = i64{tile} * Shape::BLOCK_N;
    const i64 valid = num_keys - first;
    if (is_value) {
      const int col = chunk * Shape::BLOCK_DV;
      load_tile<Shape::kThreads, Config::kIsAligned>(
          typename Shape::ValueTile{base}, values + first * value_stride + col, value_stride, valid,
          minimum(Config::kHeadDimV - col, Shape::BLOCK_DV));
    } else {
      load_tile<Shape::kThreads, Config::kIsAligned>(typename Shape::KeyTile{base},
                                                     keys + first * key_stride, key_stride, valid,
                                                     Config::kHeadDim);
      load_floats<Shape::kThreads, Shape::BLOCK_N>(base + Shape::kTileBytes, key_norms + first,
                                                   valid);
    }
    advance();
  }

  LSSAR_DEVICE void advance() {
    if (chunk >= 0 && !is_value) {
      is_value = true;
      return;
    }
    is_value = false;
    if (++tile == num_tiles) {
      tile = 0;
      ++chunk;
    }
  }
};

template <class Config>
struct Forward {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  static constexpr int kKeyTiles = Shape::BLOCK_N / kTileCols;
  static constexpr int kValueTiles = Shape::BLOCK_DV / kTileCols;
  using Scores = Fragment<kKeyTiles>;
  using Columns = Fragment<kValueTiles>;
  using Ring = Pipeline<Config::kForwardStages, ForwardLoader<Config>>;

  const AttentionParams& p;
  BlockPlace place;
  typename Shape::QueryTile queries;
  u32 stages;
  int num_tiles;
  i64 first_masked;  // tiles whose end is above this may hide keys from some row
  ForwardRows<Config> rows;

  LSSAR_DEVICE explicit Forward(const AttentionParams& params) : p(params) {}

  LSSAR_DEVICE u32 stage_address(int stage) const { return stages + stage * Shape::kStageBytes; }
  LSSAR_DEVICE bool needs_mask(i64 first) const { return first + Shape::BLOCK_N > first_masked; }
  // `hidden` in place of scores or weights of keys that a row does not see.
  LSSAR_DEVICE void mask(Scores& s, i64 first, float hidden) const {
    const i64 seen[2] = {keys_in_range<Config>(p, rows.visible[0]),
                         keys_in_range<Config>(p, rows.visible[1])};
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

  LSSAR_DEVICE void pass_one(Ring& ring, PassOneSums<Config, kKeyTiles>& sums) {
    sums.clear();
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      Scores s;
      const u32 stage = stage_address(ring.next());
      if (tile == 0) finish_rows();
      compute_scores(s, stage);
      const i64 first = i64{tile} * Shape::BLOCK_N;
      if (needs_mask(first)) mask(s, first, -infinity());
      sums.add(s);
    }
  }

  // One pass over keys and values for the columns of `chunk`: sum_j w_ij v_j and, for training,
  // sum_j u_ij^(p-1) v_j, with the sums of the rounded weights that were used.
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
      const i64 first = i64{tile} * Shape::BLOCK_N;
      if (needs_mask(first)) mask(s, first, 0.0f);

      const typename Shape::ValueTile values{stage_address(ring.next())};
      if (is_skipped) continue;
      typename Mma::template Operand<kKeyTiles> weights;
      if constexpr (Config::kNeedsX) {
        Scores slope;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n)
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
        for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
      }
      Mma::round(weights, s);
      zs.add(weights);
      Mma::multiply(o, weights, values);
    }
  }

  LSSAR_DEVICE QueryRows<Config> place_block() {
    const QueryTiles<Config, Shape::BLOCK_M> tiles(p);
    const i64 num_blocks = tiles.count();
    place = block_place(num_blocks, tiles.slices);
    if (Config::kIsCausal) place.tile_idx = num_blocks - 1 - place.tile_idx;
    const QueryRows<Config> tile = tiles.rows(place, place.tile_idx);
    const i64 last = tiles.last_query(place.tile_idx);
    rows.place(p, tile, warp_index() * kWarpRows);
    const i64 most_keys = keys_in_range<Config>(p, num_visible_keys<Config>(p, last));
    num_tiles = static_cast<int>(ceil_div(most_keys, Shape::BLOCK_N));
    first_masked = tiles.has_gaps(tile, last)
                       ? 0
                       : keys_in_range<Config>(p, num_visible_keys<Config>(p, tile.first));
    return tile;
  }

  // The query tile's loads, and the loader of what follows.
  LSSAR_DEVICE ForwardLoader<Config> start_loads() {
    const QueryRows<Config> tile = place_block();
    queries.base = dynamic_shared_address();
    stages = queries.base + Shape::QueryTile::kBytes;
    const int kv_head = kv_head_of<Config>(p, place);
    if constexpr (Config::kPackGqa) {
      load_packed_queries<Config, Shape::kThreads>(queries, p, place.batch, tile);
    } else {
      load_tile<Shape::kThreads, Config::kIsAligned>(
          queries, row_pointer<const Element>(p.q, place.batch, tile.head, tile.first),
          p.q.row_stride, seq_q<Config>(p) - tile.first, Config::kHeadDim);
    }
    return {row_pointer<const Element>(p.k, place.batch, kv_head, 0),
            row_pointer<const Element>(p.v, place.batch, kv_head, 0),
            p.k_inv_norm + (i64{place.batch} * p.kv_heads + kv_head) * key_norm_pitch<Config>(p),
            p.k.row_stride,
            p.v.row_stride,
            seq_k<Config>(p),
            num_tiles,
            stages};
  }

  LSSAR_DEVICE void run() {
    ForwardLoader<Config> loader = start_loads();
    Ring ring(loader);
    ring.start();
    PassOneSums<Config, kKeyTiles> sums;
    pass_one(ring, sums);
    rows.finish_pass_one(sums);
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kNumChunks; ++chunk) {
      Columns o, y;
      typename Mma::RowSums zs, t;
      o.clear();
      y.clear();
      zs.clear();
      t.clear();
      pass_two(ring, o, zs, y, t);
      rows.write_columns(p, place, chunk * Shape::BLOCK_DV, o, y,
                         {{zs.total(0), zs.total(1)}, {t.total(0), t.total(1)}});
    }
    ring.finish();
  }
};

template <class Config>
LSSAR_DEVICE void forward(const AttentionParams& p) {
  Forward<Config>(p).run();
}

}  // namespace lssar_device
