// What a consumer of the Hopper forward does with tiles, whatever the order of its passes. See
// hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/kernels/hopper_forward_sums.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/forward_rows.cuh"
#include "templates/tile/score_fragment.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// A lane's rows of one query tile.
template <class Config>
struct ConsumerRows : ForwardRows<Config> {
  i64 first_masked;  // tiles whose end is above this may hide keys from some row of the warp

  LSSAR_DEVICE void place_in(const AttentionParams& params, const ForwardWork<Config>& work,
                             int group) {
    const QueryRows<Config> rows = work.rows_of(params, group);
    const int row0 = warp_group_thread() / kWarpThreads * kWarpRows;
    this->place(params, rows, row0);
    first_masked = rows.end_query(row0, kWarpRows) > seq_q<Config>(params)
                       ? 0
                       : num_visible_keys<Config>(params, rows.query(row0));
  }

  LSSAR_DEVICE bool needs_mask(i64 end) const { return end > first_masked; }
};

// A warp group.
template <class Config>
struct ForwardConsumer {
  using Shape = HopperForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kScoreTiles = Shape::kScoreCols / kTileCols;
  static constexpr int kKeyTiles = Shape::kBlockCols / kTileCols;
  using Rows = ConsumerRows<Config>;
  using ScoreSums = PassOneSums<Config, kScoreTiles>;
  using Scores = Fragment<kKeyTiles>;
  using Sums = ForwardSums<Config>;

  const TmaParams& tma;
  const AttentionParams& params;
  ForwardShared<Config> shared;
  int group;  // of the consumers
  PingPong<Config::kPingPong, Shape::kNumConsumers> ping_pong;
  RingCursor<Shape::kStages> filled;    // next stage to wait for
  RingCursor<Shape::kStages> released;  // next stage to give back
  RingCursor<Shape::kQueryStages> query_cursor;
  Rows rows;                                                           // of pass 2
  ColumnsOperand<typename Config::Element, Config::kHeadDim> queries;  // kQueriesInRegisters
  bool group_has_weights = true;                                       // kSkipTiles

  LSSAR_DEVICE ForwardConsumer(const TmaParams& tma, ForwardShared<Config> s, int g)
      : tma(tma), params(tma.attention), shared(s), group(g), ping_pong{g} {}

  // The address of the next stage, once it is filled.
  LSSAR_DEVICE u32 next_stage() {
    mbarrier_wait(shared.ring().full(filled.stage), filled.parity);
    const u32 address = shared.stage(filled.stage);
    filled.advance();
    return address;
  }

  // The stage of the next queries, once they have come.
  LSSAR_DEVICE int next_query_stage() {
    const int stage = query_cursor.stage;
    mbarrier_wait(shared.query_ring().full(stage), query_cursor.parity);
    query_cursor.advance();
    return stage;
  }

  // REQUIRES: products that read the oldest stage in use have ended, and so have, with a fence and
  // a barrier of the warp, other reads.
  LSSAR_DEVICE void release_stage() {
    release<Shape::kCluster>(shared.ring().empty(released.stage), lane_index());
    released.advance();
  }

  // Starts the products of the queries in a stage and a tile of keys.
  template <class Tile, int kTiles>
  LSSAR_DEVICE void start_scores_of(Fragment<kTiles>& s, int query_stage, Tile keys) {
    wgmma_fence();
    if constexpr (Config::kQueriesInRegisters) {
      start_multiply_transposed<typename Config::Element, Config::kHeadDim>(s, queries, keys);
    } else {
      start_multiply_transposed(s, shared.queries(query_stage), group * kWarpGroupRows, keys);
    }
    wgmma_commit();
  }

  template <class Tile, int kTiles>
  LSSAR_DEVICE void start_scores(Fragment<kTiles>& s, int query_stage) {
    start_scores_of(s, query_stage, Tile{next_stage()});
  }

  // Products of the oldest stage in use -> scores in bits of the rows.
  template <int kTiles>
  LSSAR_DEVICE void scale(Fragment<kTiles>& s, const Rows& of) const {
    scale_scores(s, of.score_scale, shared.norms(released.stage));
  }

  // REQUIRES: the products with the stage's keys have ended.
  LSSAR_DEVICE void release_keys() {
    fence_async_shared();  // norms were read before TMA overwrites them
    warp_barrier();
    release_stage();
  }

  template <int kTiles>
  LSSAR_DEVICE void finish_scores(Fragment<kTiles>& s, const Rows& of) {
    scale(s, of);
    release_keys();
  }

  // Scores in bits of pass 1.
  LSSAR_DEVICE void add_up(ScoreSums& sums, const Rows& of, Fragment<kScoreTiles>& s, int tile) {
    const i64 first = i64{tile} * Shape::kScoreCols;
    if (of.needs_mask(first + Shape::kScoreCols)) mask_keys(s, of.visible, first, -infinity());
    sums.add(s);
  }

  LSSAR_DEVICE void add_scores(ScoreSums& sums, Fragment<kScoreTiles>& s, int tile) {
    finish_scores(s, rows);
    add_up(sums, rows, s, tile);
  }

  LSSAR_DEVICE void start_score_tile(Fragment<kScoreTiles>& s, int query_stage) {
    ping_pong.acquire();
    start_scores<typename Shape::ScoreKeyTile>(s, query_stage);
    ping_pong.release();
  }

  // One tile's products are in flight in turn in `even` and `odd` while the other is added up.
  // NOTE: no product starts under a condition within the loop: the assembler would then wait for
  // each (C7514).
  LSSAR_DEVICE void add_overlapped(ScoreSums& sums, int query_stage, int num_tiles) {
    Fragment<kScoreTiles> even, odd;
    start_score_tile(even, query_stage);
    int tile = 0;
#pragma unroll 1
    for (; tile + 2 < num_tiles; tile += 2) {
      start_score_tile(odd, query_stage);
      finish<1>(even);
      add_scores(sums, even, tile);
      start_score_tile(even, query_stage);
      finish<1>(odd);
      add_scores(sums, odd, tile + 1);
    }
    if (tile + 1 < num_tiles) {
      start_score_tile(odd, query_stage);
      finish<1>(even);
      add_scores(sums, even, tile);
      finish<0>(odd);
      add_scores(sums, odd, tile + 1);
    } else {
      finish<0>(even);
      add_scores(sums, even, tile);
    }
  }

  LSSAR_DEVICE void pass_one(int query_stage, int num_tiles) {
    ScoreSums sums;
    sums.clear();
    if constexpr (Config::kOverlap) {
      if (num_tiles > 0) add_overlapped(sums, query_stage, num_tiles);
    } else {
#pragma unroll 1
      for (int tile = 0; tile < num_tiles; ++tile) {
        Fragment<kScoreTiles> s;
        start_score_tile(s, query_stage);
        finish<0>(s);
        add_scores(sums, s, tile);
      }
    }
    rows.finish_pass_one(sums);
  }

  // Scores in bits -> u, and without X on to the weights.
  LSSAR_DEVICE void weigh(Scores& s, int tile) {
    if constexpr (Config::kSkipTiles) {
      const bool is_skipped = rows.has_no_weights(s);
      group_has_weights = consumer_any(group, !is_skipped);
      if (is_skipped) {
        s.clear();
        return;
      }
    }
    rows.evaluate(s);
    const i64 first = i64{tile} * Shape::kBlockCols;
    if (rows.needs_mask(first + Shape::kBlockCols)) mask_keys(s, rows.visible, first, 0.0f);
    if constexpr (!Config::kNeedsX) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
    }
  }

  // Of the last tile weighed: false in all of the warp group, or in none of it.
  LSSAR_DEVICE bool has_weights() const { return !Config::kSkipTiles || group_has_weights; }

  // REQUIRES: the consumer's reads of the query tile have ended.
  LSSAR_DEVICE void release_queries(int stage) const {
    if (warp_group_thread() == 0) mbarrier_arrive(shared.query_ring().empty(stage));
  }

  // Norms of the queries in the stage to `of`.
  LSSAR_DEVICE void prepare_queries(Rows& of, int stage) {
    const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
    const auto tile = shared.queries(stage);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + fragment_row(half);
      of.score_scale[half] =
          of.scale_from_norm(half, tile_row_inverse_norm<Config, Mma>(tile, row));
    }
    if constexpr (Config::kQueriesInRegisters) {
      warp_barrier();  // a row is scaled by four lanes and read by others
      load_operand(queries, tile, row0);
    }
    // Before TMA overwrites what was read; with kStoresByTma the fence of store_output comes first.
    if constexpr (!Config::kStoresByTma) fence_async_shared();
    consumer_barrier(group);
    if constexpr (Config::kQueriesInRegisters) release_queries(stage);
  }

  // Writes a dv_block of columns of o and what else is saved with it; queries must be done with.
  LSSAR_DEVICE void write_output(Sums& sums, const ForwardWork<Config>& work, int dv_block,
                                 int stage) const {
    rows.template write_columns<!Config::kStoresByTma>(
        params, work.place, dv_block * Shape::kBlockDv, sums.o, sums.y,
        {{sums.zs.total(0), sums.zs.total(1)}, {sums.t.total(0), sums.t.total(1)}});
    if constexpr (Config::kStoresByTma) store_output(sums.o, work, stage);
  }

  // kStoresByTma: o, in place of the consumer's queries, and from there to global memory.
  // REQUIRES: write_columns has divided it by its weights.
  LSSAR_DEVICE void store_output(const typename Sums::Columns& o, const ForwardWork<Config>& work,
                                 int stage) const {
    using Tile = typename Shape::OutputTile;
    const int first = group * kWarpGroupRows;
    typename Mma::template Operand<Shape::kBlockDv / kTileCols> rounded;
    Mma::round(rounded, o);
    store_operand(shared.output(stage), first + warp_group_thread() / kWarpThreads * kWarpRows,
                  rounded);
    fence_async_shared();
    consumer_barrier(group);
    if (warp_group_thread() == 0) {
#pragma unroll
      for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk) {
        const u32 from =
            shared.output(stage).base + chunk * Tile::kChunkBytes + first * kSwizzleBytes;
        if constexpr (Config::kPackGqa) {
          const QueryRows<Config> at = work.rows_of(params, group);
          tma_store(tma.maps[kOutputMap], from, chunk * Tile::kChunkCols,
                    at.head - work.place.head * at.group, static_cast<int>(at.first),
                    work.place.head, work.place.batch);
        } else {
          tma_store(tma.maps[kOutputMap], from, chunk * Tile::kChunkCols,
                    static_cast<int>(work.first_row) + first, work.place.head, work.place.batch);
        }
      }
      bulk_commit();
      bulk_wait_read<0>();
    }
    release_queries(stage);
  }

  // kPackGqa: zeros to the consumer's rows that no box of queries fills.
  LSSAR_DEVICE void clear_gaps() const {
    using Tile = typename Shape::QueryTile;
    const u32 zeros[4] = {0, 0, 0, 0};
    const int filled = typename Shape::QueryTiles(params).box_rows();
    const int end = (kWarpGroupRows - filled) * kSwizzleBytes;
#pragma unroll 1
    for (int stage = 0; stage < Shape::kQueryStages; ++stage)
#pragma unroll
      for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk) {
        const u32 rows = shared.queries(stage).base + chunk * Tile::kChunkBytes +
                         (group * kWarpGroupRows + filled) * kSwizzleBytes;
        for (int at = warp_group_thread() * kVectorBytes; at < end;
             at += kWarpGroupThreads * kVectorBytes)
          store_shared(rows + at, zeros);
      }
    fence_async_shared();  // before products read them
    consumer_barrier(group);
  }

  // Calls `process` with each chain of the block, and the stage of its first queries.
  template <class Process>
  LSSAR_DEVICE void for_each_chain(const Process& process) {
    if constexpr (Config::kPackGqa) clear_gaps();
    ping_pong.begin();
    const u32 count = ForwardChain<Config>::total(params);
    if constexpr (Config::kTakesTickets) {
#pragma unroll 1
      for (;;) {
        const int stage = next_query_stage();
        u32 index;
        load_shared(index, shared.work_index(stage));
        if (index >= count) break;
        LSSAR_INLINE_CALL process(ForwardChain<Config>(params, index), stage);
      }
    } else {
      for_each_work_tile<Config::kIsPersistent, Shape::kCluster>(count, [&](u32 index) {
        const int stage = next_query_stage();
        LSSAR_INLINE_CALL process(ForwardChain<Config>(params, index), stage);
      });
    }
  }
};

}  // namespace lssar_device
