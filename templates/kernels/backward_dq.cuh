// Backward for queries in a separate kernel, where every sum has one fixed order.
//
//   dq_i = a_i - q̂_i (q̂_i a_i),   a_i = sum_j dS'_ij k_j / |k_j|
//
// A block owns kBlockRows queries of one head, 16 per warp, and walks over tiles of kBlockCols
// keys. With a causal mask the longest rows run first.
//
// Shared memory: query tile, output gradient tile, then kStages stages of {keys, values, reciprocal
// key norms}. Barriers: one per stage (tile/pipeline.cuh).
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/load_seen.cuh"
#include "templates/tile/load_tile.cuh"
#include "templates/tile/pipeline.cuh"
#include "templates/tile/project.cuh"
#include "templates/tile/query_scores.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
struct DqShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kDqBlockRows;
  static constexpr int kBlockCols = Config::kDqBlockCols;
  static constexpr int kThreads = kBlockRows / kWarpRows * kWarpThreads;

  using QueryTile = SharedTile<Element, kBlockRows, Config::kHeadDimPadded>;
  using GradTile = SharedTile<Element, kBlockRows, Config::kHeadDimVPadded>;
  using KeyTile = SharedTile<Element, kBlockCols, Config::kHeadDimPadded>;
  using ValueTile = SharedTile<Element, kBlockCols, Config::kHeadDimVPadded>;

  static constexpr int kNormsOffset = KeyTile::kBytes + ValueTile::kBytes;
  static constexpr int kStageBytes = kNormsOffset + kBlockCols * 4;
  static constexpr int kStagesOffset = QueryTile::kBytes + GradTile::kBytes;
  static constexpr int kSharedBytes = kStagesOffset + Config::kDqStages * kStageBytes;

  static_assert(kBlockRows % kWarpRows == 0, "a warp owns 16 rows");
  static_assert(kBlockCols % 16 == 0, "keys are the depth of an mma, 16 at a time");
};

template <class Config>
struct DqLoader {
  using Shape = DqShape<Config>;
  using Element = typename Config::Element;

  const AttentionParams& params;
  int batch;
  int kv_head;
  KeyTiles<Config> num_tiles;
  u32 stages;

  int tile = 0;

  LSSAR_DEVICE void load_seen(u32 base, i64 first) const {
    load_seen_tile<Config, Shape::kThreads>(
        typename Shape::KeyTile{base}, row_pointer<const Element>(params.k, batch, kv_head, first),
        params.k.row_stride, num_tiles.seen, first, Config::kHeadDim);
    load_seen_tile<Config, Shape::kThreads>(
        typename Shape::ValueTile{base + Shape::KeyTile::kBytes},
        row_pointer<const Element>(params.v, batch, kv_head, first), params.v.row_stride,
        num_tiles.seen, first, Config::kHeadDimV);
    load_seen_floats<Shape::kThreads, Shape::kBlockCols>(
        base + Shape::kNormsOffset,
        params.k_inv_norm +
            (i64{batch} * params.kv_heads + kv_head) * key_norm_pitch<Config>(params) + first,
        num_tiles.seen, first);
  }

  LSSAR_DEVICE void load(int stage) {
    if (tile == num_tiles) return;
    const u32 base = stages + stage * Shape::kStageBytes;
    const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
    if constexpr (Config::kHasWindow) {
      load_seen(base, first);
      ++tile;
      return;
    }
    const i64 keys = seq_k<Config>(params);
    load_tile<Config, Shape::kThreads>(typename Shape::KeyTile{base},
                                       row_pointer<const Element>(params.k, batch, kv_head, first),
                                       params.k.row_stride, keys - first, Config::kHeadDim);
    load_tile<Config, Shape::kThreads>(typename Shape::ValueTile{base + Shape::KeyTile::kBytes},
                                       row_pointer<const Element>(params.v, batch, kv_head, first),
                                       params.v.row_stride, keys - first, Config::kHeadDimV);
    load_floats<Shape::kThreads, Shape::kBlockCols>(
        base + Shape::kNormsOffset,
        params.k_inv_norm +
            (i64{batch} * params.kv_heads + kv_head) * key_norm_pitch<Config>(params) + first,
        keys - first);
    ++tile;
  }
};

template <class Config>
struct BackwardDq {
  using Shape = DqShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;
  using QueryGrads = Fragment<Config::kHeadDimPadded / kTileCols>;

  const AttentionParams& params;
  BlockPlace place;
  i64 first_row;
  RowKeys<Config> visible[2];
  RowConstants constants[2];
  VisitedTiles tiles;  // kHasWindow
  VisibleKeys common;  // kHasWindow: keys that no row of the block misses
  AlibiRows alibi;     // kHasAlibi

  LSSAR_DEVICE explicit BackwardDq(const AttentionParams& params) : params(params) {}

  LSSAR_DEVICE int warp_row0() const { return warp_index() * kWarpRows; }
  LSSAR_DEVICE i64 row(int half) const { return first_row + warp_row0() + fragment_row(half); }
  LSSAR_DEVICE i64 flat_row(int half) const {
    return (i64{place.batch} * params.heads + place.head) * seq_q<Config>(params) + row(half);
  }

  LSSAR_DEVICE void place_block() {
    const i64 num_queries = seq_q<Config>(params);
    const i64 num_blocks = ceil_div(num_queries, Shape::kBlockRows);
    place = block_place<Config>(num_blocks, params.heads);
    if (Config::kIsCausal) place.tile_idx = num_blocks - 1 - place.tile_idx;
    first_row = place.tile_idx * Shape::kBlockRows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      visible[half] = num_visible_keys<Config>(params, row(half));
      constants[half] = no_gradient();
      if (row(half) < num_queries)
        constants[half] = load_row_constants_global(params.row_constants +
                                                    flat_row(half) * (kRowConstantBytes / 4));
    }
    if constexpr (Config::kHasWindow) place_window();
    if constexpr (Config::kHasAlibi) load_alibi();
  }

  LSSAR_DEVICE void load_alibi() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      alibi.slope[half] = alibi_slope<Config>(params, place.head);
      alibi.position[half] = row_position<Config>(params, row(half));
    }
  }

  LSSAR_DEVICE void place_window() {
    const i64 last_row = minimum(first_row + Shape::kBlockRows, seq_q<Config>(params)) - 1;
    const VisibleKeys of_first = num_visible_keys<Config>(params, first_row);
    const VisibleKeys of_last = num_visible_keys<Config>(params, last_row);
    tiles = visited_tiles<Shape::kBlockCols>(of_first, of_last);
    common = common_keys(of_first, of_last);
  }

  //
  // Not formatted: lines break as in emitted sources.
  // clang-format off
  LSSAR_DEVICE void run() {
    place_block();
    const i64 num_queries = seq_q<Config>(params);
    const i64 last_row = minimum(first_row + Shape::kBlockRows, num_queries) - 1;
    const i64 first_visible = num_visible_keys<Config>(params, first_row);
    const int num_tiles =
        Config::kHasWindow ? tiles.count :
        static_cast<int>(ceil_div(num_visible_keys<Config>(params, last_row), Shape::kBlockCols));
    const u32 shared = dynamic_shared_address();
    const typename Shape::QueryTile queries{shared};
    const typename Shape::GradTile grads{shared + Shape::QueryTile::kBytes};
    load_tile<Config, Shape::kThreads>(
        queries, row_pointer<const Element>(params.q, place.batch, place.head, first_row),
        params.q.row_stride, num_queries - first_row, Config::kHeadDim);
    load_tile<Config, Shape::kThreads>(
        grads, row_pointer<const Element>(params.grad_o, place.batch, place.head, first_row),
        params.grad_o.row_stride, num_queries - first_row, Config::kHeadDimV);
    DqLoader<Config> loader{params, place.batch, place.head / (params.heads / params.kv_heads),
                            num_tiles, shared + Shape::kStagesOffset};
    if constexpr (Config::kHasWindow) loader.num_tiles = tiles;
    Pipeline<Config::kDqStages, DqLoader<Config>> ring(loader);
    ring.start();

    const int num_parts = Config::kHasWindow ? num_warp_grad_parts<Config>(visible)
                                             : num_grad_parts<Config>(first_visible);
    GradScale<Config> scale;
    QueryGrads dq;
    dq.clear();
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      const u32 stage = shared + Shape::kStagesOffset + ring.next() * Shape::kStageBytes;
      const typename Shape::KeyTile keys{stage};
      Scores s, d;
      s.clear();
      d.clear();
      Mma::multiply_transposed(s, queries, warp_row0(), keys);
      Mma::multiply_transposed(d, grads, warp_row0(),
                               typename Shape::ValueTile{stage + Shape::KeyTile::kBytes});
      const i64 first_key =
          i64{tile_at<Config>(tiles, tile)} * Shape::kBlockCols;
      const bool needs_mask = Config::kHasWindow
                                  ? !common.has_all(first_key, Shape::kBlockCols)
                                  : (Config::kIsCausal || Config::kIsGeneral) &&
                                        first_key + Shape::kBlockCols > first_visible;
      if constexpr (Config::kHasAlibi) {
        weigh_queries<Config>(s, d, constants, stage + Shape::kNormsOffset,
                              AlibiMask<Config>{{visible, first_key, needs_mask}, alibi});
      } else {
        weigh_queries<Config>(s, d, constants, stage + Shape::kNormsOffset,
                              {visible, first_key, needs_mask});
      }
      if constexpr (GradScale<Config>::kIsNeeded)
        scale.apply(GradScale<Config>::largest_bits(d), d, dq);
#pragma unroll 1
      for (int part = 0; part < num_parts; ++part) {
        typename Mma::template Operand<kKeyMmaTiles> operand;
        Mma::round(operand, d);
        Mma::multiply(dq, operand, keys);
        Mma::subtract(d, operand);
      }
    }
    ring.finish();
    block_barrier();  // without key tiles nothing has waited for the query tile yet
    write(dq, queries, scale.inverse());
  }

  //
  // clang-format on
  LSSAR_DEVICE void write(QueryGrads& dq, typename Shape::QueryTile queries,
                          float inverse_scale) const {
    GradScale<Config>::multiply(dq, inverse_scale);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool is_row = row(half) < seq_q<Config>(params);
      if constexpr (Config::kHasNorms) {
        const float inverse_norm = is_row ? params.q_inv_norm[flat_row(half)] : 0.0f;
        project_row<Mma>(dq, half, queries, warp_row0(), inverse_norm);
      }
      if (is_row)
        write_row<Config, Config::kHeadDim>(
            row_pointer<Element>(params.grad_q, place.batch, place.head, row(half)), dq, half);
    }
  }
};

template <class Config>
LSSAR_DEVICE void backward_dq(const AttentionParams& params) {
  BackwardDq<Config>(params).run();
}

}  // namespace lssar_device
