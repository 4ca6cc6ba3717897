// What a consumer does with tiles, in any order.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_operands.cuh"
#include "templates/kernels/hopper_forward_output.cuh"
#include "templates/kernels/hopper_forward_packed.cuh"
#include "templates/kernels/hopper_forward_skipping.cuh"
#include "templates/kernels/hopper_forward_sums.cuh"
#include "templates/kernels/hopper_forward_window.cuh"
#include "templates/kernels/hopper_forward_work.cuh"
#include "templates/kernels/tma_sequences.cuh"
#include "templates/ptx/assembler.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/changed_scores.cuh"
#include "templates/tile/cluster_tiles.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/forward_rows.cuh"
#include "templates/tile/general_rows.cuh"
#include "templates/tile/norms_ahead.cuh"
#include "templates/tile/score_fragment.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

template <class Config>
using HopperForwardRows =
    typename Select<Config::kIsGeneral, GeneralRows<Config>, ForwardRows<Config>>::Type;

// A lane's rows of one query tile.
template <class Config>
struct ConsumerRows : HopperForwardRows<Config> {
  RowKeys<Config> seen_by_all;  // keys that all rows of the warp see

  LSSAR_DEVICE void place_in(const AttentionParams& params, const ForwardWork<Config>& work,
                             int group) {
    const QueryRows<Config> rows = work.rows_of(params, group);
    const int row0 = warp_group_thread() / kWarpThreads * kWarpRows;
    this->place(params, rows, row0);
    if constexpr (Config::kHasWindow) {
      find_common_keys<Config>(seen_by_all, params, rows, row0);
    } else {
      seen_by_all = rows.end_query(row0, kWarpRows) > seq_q<Config>(params)
                        ? 0
                        : num_visible_keys<Config>(params, rows.query(row0));
    }
  }

  // Whether some row of the warp may miss one of the `count` keys from `first` on.
  LSSAR_DEVICE bool may_miss(i64 first, int count) const {
    if constexpr (Config::kHasWindow) return !seen_by_all.has_all(first, count);
    return seen_by_all < first + count;
  }

  // kSavesPassOneEarly: writes what pass 1 knows of the saved statistics, which then take no
  // registers in pass 2.
  LSSAR_DEVICE void save_pass_one(const AttentionParams& params, const BlockPlace& place) const {
    if ((!Config::kIsTraining && params.saved_stats == nullptr) || lane_index() % 4 != 0) return;
    const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (this->row[half] >= seq_q<Config>(params)) continue;
      float* stats = params.saved_stats + this->saved_index(params, place, half);
      stats[0] = this->sum[half] * kLn2;
      stats[count] = this->m[half];
      stats[3 * count] = this->largest_score[half];
    }
  }

  // Scores without score_scale -> u. The linear softplus multiplies by it as part of its slope.
  template <int kTiles>
  LSSAR_DEVICE void evaluate_unscaled(Fragment<kTiles>& s) const {
    if (Config::kNumEvaluators < 3 || this->evaluator != kLinearSoftplus) {
      multiply_rows(s, this->score_scale);
      this->evaluate(s);
      return;
    }
    const auto& scale = this->scale;
    const float slope[2] = {scale[0].slope * this->score_scale[0],
                            scale[1].slope * this->score_scale[1]};
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s.at[n][e] = fma_saturate(s.at[n][e], slope[e / 2], scale[e / 2].intercept);
  }

  // kIsGeneral: the same of tile `tile`.
  template <int kTiles>
  LSSAR_DEVICE TileMask mask_of(const Fragment<kTiles>&, int tile) const {
    constexpr int kKeys = kTiles * kTileCols;
    const i64 first = i64{tile} * kKeys;
    return {first, may_miss(first, kKeys)};
  }

  // Writes `hidden` for keys of tile `tile` that a row does not see.
  template <int kTiles>
  LSSAR_DEVICE void mask(Fragment<kTiles>& s, int tile, float hidden) const {
    constexpr int kKeys = kTiles * kTileCols;
    const i64 first = i64{tile} * kKeys;
    if (may_miss(first, kKeys)) mask_keys<Config>(s, this->visible, first, hidden);
  }
};

// A warp group.
template <class Config>
struct ForwardConsumer {
  using Shape = HopperForwardShape<Config>;
  using Mma = typename Config::Mma;
  static constexpr int kScoreMmaTiles = Shape::kScoreCols / kTileCols;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Rows = ConsumerRows<Config>;
  using ScoreSums = PassOneSums<Config, kScoreMmaTiles>;
  using TileScores = Fragment<kScoreMmaTiles>;  // of pass 1
  using Scores = Fragment<kKeyMmaTiles>;
  using Sums = ForwardSums<Config>;
  // Whether pass 1 has a loop of its own for tiles without hidden keys.
  static constexpr bool kHasWholeTiles = !Config::kIsGeneral && !Config::kHasWindow;

  const TmaParams& tma;
  const AttentionParams& params;
  ForwardShared<Config> shared;
  int group;  // of the consumers
  PingPong<Config::kPingPong, Shape::kNumConsumers> ping_pong;
  RingCursor<Shape::kStages> filled;    // next stage to wait for
  RingCursor<Shape::kStages> released;  // next stage to release
  RingCursor<Shape::kQueryStages> query_cursor;
  Rows rows;                                 // of pass 2
  QueriesInRegisters<Config> query_operand;  // kQueriesInRegisters
  AlibiRows alibi;                           // kHasAlibi: of the same rows
  SkippedTiles<Config> skipping;             // kSkipTiles
  UnseenValues<Config> unseen;               // by all rows of the call
  float weight_factor[2];                    // kIsGeneral: GeneralRows::weigh

  LSSAR_DEVICE ForwardConsumer(const TmaParams& tma, ForwardShared<Config> s, int g)
      : tma(tma),
        params(Config::kHasLengths ? tma_sequence.attention : tma.attention),
        shared(s),
        group(g),
        ping_pong{g} {}

  // Waits for the next stage; its address.
  LSSAR_DEVICE u32 next_stage() {
    mbarrier_wait(shared.ring().full(filled.stage), filled.parity);
    const u32 address = shared.stage(filled.stage);
    filled.advance();
    return address;
  }

  // REQUIRES: all reads of the oldest stage in use have ended.
  //
  // Reads other than products had a fence and a barrier of the warp after them.
  LSSAR_DEVICE void release_stage() {
    const u32 empty = shared.ring().empty(released.stage);
    if constexpr (Shape::kCluster > 1) {
      release_share<Shape::kCluster>(empty, lane_index());
    } else {
      if (lane_index() == 0) mbarrier_arrive(empty);
    }
    released.advance();
  }

  // REQUIRES: products with the stage's keys have ended.
  LSSAR_DEVICE void release_keys() {
    fence_async_shared();  // norms were read before TMA overwrites them
    warp_barrier();
    release_stage();
  }

  // Waits for the next queries; their stage.
  LSSAR_DEVICE int next_query_stage() {
    const int stage = query_cursor.stage;
    mbarrier_wait(shared.query_ring().full(stage), query_cursor.parity);
    query_cursor.advance();
    return stage;
  }

  // Reads the norms of the stage's queries to `of`.
  //
  // With kQueriesInRegisters it reads the queries too.
  LSSAR_DEVICE void prepare_queries(Rows& of, int stage) {
    const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
    const auto tile = shared.queries(stage);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + fragment_row(half);
      of.finish_row(half, tile_row_inverse_norm<Config, Mma>(tile, row));
    }
    if constexpr (Config::kQueriesInRegisters) query_operand.load(tile, row0);
    // Reads end before TMA overwrites the tile. If TMA stores o, store_output has this fence.
    if constexpr (!Config::kStoresByTma) fence_async_shared();
    consumer_barrier(group);
    if constexpr (Config::kQueriesInRegisters) release_queries(stage);
  }

  // REQUIRES: the consumer's reads of the query tile have ended.
  LSSAR_DEVICE void release_queries(int stage) const {
    if (warp_group_thread() == 0) mbarrier_arrive(shared.query_ring().empty(stage));
  }

  template <class KeyTile, int kTiles>
  LSSAR_DEVICE void start_scores(Fragment<kTiles>& s, int query_stage, KeyTile keys) {
    wgmma_fence();
    if constexpr (Config::kQueriesInRegisters) {
      query_operand.start_scores(s, keys);
    } else {
      start_multiply_transposed(s, shared.queries(query_stage), group * kWarpGroupRows, keys);
    }
    wgmma_commit();
  }

  // Products of the oldest stage in use -> scores, in bits if `row_scale` is the rows' score_scale.
  template <int kTiles>
  LSSAR_DEVICE void scale_scores_of_stage(Fragment<kTiles>& s, const float (&row_scale)[2],
                                          const NormsAhead<kTiles>& norms) {
    if constexpr (Config::kFusesScale) {
      spoil_scores(s, shared.norms(released.stage));
    } else {
      norms.scale(s, row_scale);
    }
  }

  // Reads norms of the oldest stage in use, and then waits for its products.
  template <int kInFlight, int kTiles>
  LSSAR_DEVICE NormsAhead<kTiles> finish_scores(Fragment<kTiles>& s) {
    NormsAhead<kTiles> norms{};
    if constexpr (!Config::kFusesScale) norms.load(shared.norms(released.stage));
    finish<kInFlight>(s);
    return norms;
  }

  // kChangesScores: applies the soft cap and ALiBi to the scores of tile `tile`.
  template <int kTiles>
  LSSAR_DEVICE void change_scores(Fragment<kTiles>& s, int tile) const {
    if constexpr (Config::kHasSoftCap) cap_scores<Config>(s);
    if constexpr (Config::kHasAlibi) alibi.add_to(s, i64{tile} * (kTiles * kTileCols));
  }

  // Waits for a tile's products and adds up its scores.
  //
  // ptxas orders instructions between branches and fences only. With a mask or a fence before the
  // sum, a tile's multiplications come first, and then its special functions in a row.
  template <int kInFlight, bool kMayHideKeys = true>
  LSSAR_DEVICE void add_scores(ScoreSums& sums, TileScores& s, int tile) {
    const auto norms = finish_scores<kInFlight>(s);
    scale_scores_of_stage(s, rows.score_scale, norms);
    if constexpr (Config::kIsGeneral) {
      release_keys();
      if constexpr (Config::kChangesScores) change_scores(s, tile);
      rows.add_activations(s, rows.mask_of(s, tile));
      return;
    }
    if constexpr (kMayHideKeys) rows.mask(s, tile, -infinity());
    sums.add(s);
    release_keys();
  }

  LSSAR_DEVICE void start_score_tile(TileScores& s, int query_stage) {
    ping_pong.acquire();
    start_scores(s, query_stage, typename Shape::ScoreKeyTile{next_stage()});
    ping_pong.release();
  }

  // Adds up pairs of tiles while a third one is below `end`. `even` has the products of `tile`.
  // NOTE: no product starts under a condition within the loop. ptxas would wait for each (C7514).
  template <bool kMayHideKeys>
  LSSAR_DEVICE void add_pairs(ScoreSums& sums, TileScores& even, TileScores& odd, int query_stage,
                              KeyTiles<Config> num_tiles, int& tile, int end) {
#pragma unroll 1
    for (; tile + 2 < end; tile += 2) {
      start_score_tile(odd, query_stage);
      add_scores<1, kMayHideKeys>(sums, even, tile_at<Config>(num_tiles, tile));
      start_score_tile(even, query_stage);
      add_scores<1, kMayHideKeys>(sums, odd, tile_at<Config>(num_tiles, tile + 1));
    }
  }

  // The products of one tile run while the scores of the tile before it are added up: `even` and
  // `odd` alternate. All rows see all keys of the first `num_whole` tiles.
  LSSAR_DEVICE void add_overlapped(ScoreSums& sums, int query_stage, KeyTiles<Config> num_tiles,
                                   int num_whole) {
    TileScores even, odd;
    start_score_tile(even, query_stage);
    int tile = 0;
    if constexpr (kHasWholeTiles)
      add_pairs<false>(sums, even, odd, query_stage, num_tiles, tile,
                       minimum(num_whole + 1, num_tiles));
    add_pairs<true>(sums, even, odd, query_stage, num_tiles, tile, num_tiles);
    if (tile + 1 < num_tiles) {
      start_score_tile(odd, query_stage);
      add_scores<1>(sums, even, tile_at<Config>(num_tiles, tile));
      add_scores<0>(sums, odd, tile_at<Config>(num_tiles, tile + 1));
    } else {
      add_scores<0>(sums, even, tile_at<Config>(num_tiles, tile));
    }
  }

  // kHasWholeTiles: the first tiles, whose keys all rows of the consumer see.
  LSSAR_DEVICE int num_whole_tiles(const ForwardWork<Config>& work) const {
    if constexpr (!kHasWholeTiles) return 0;
    const QueryRows<Config> of = work.rows_of(params, group);
    if (of.end_query(0, kWarpGroupRows) > seq_q<Config>(params)) return 0;
    return static_cast<int>(num_visible_keys<Config>(params, of.query(0)) / Shape::kScoreCols);
  }

  LSSAR_DEVICE void pass_one(int query_stage, const ForwardWork<Config>& work) {
    const auto num_tiles = work.score_tiles;
    ScoreSums sums;
    if constexpr (Config::kOverlap) {
      if (num_tiles > 0) add_overlapped(sums, query_stage, num_tiles, num_whole_tiles(work));
    } else {
#pragma unroll 1
      for (int tile = 0; tile < num_tiles; ++tile) {
        TileScores s;
        start_score_tile(s, query_stage);
        add_scores<0>(sums, s, tile_at<Config>(num_tiles, tile));
      }
    }
    if constexpr (Config::kIsGeneral) {
      rows.finish_pass_one();
    } else {
      rows.reduce_sums(sums);
      rows.prepare_pass_two();
    }
  }

  // Turns products of the oldest stage in use into u and, without X, into weights. kInFlight groups
  // of products started after them and may still run.
  template <int kInFlight>
  LSSAR_DEVICE void weigh(Scores& s, int tile) {
    const auto norms = finish_scores<kInFlight>(s);
    constexpr bool kScalesLater = !Config::kIsGeneral && !Config::kSkipTiles;
    if constexpr (kScalesLater) {
      const float ones[2] = {1.0f, 1.0f};
      scale_scores_of_stage(s, ones, norms);
    } else {
      scale_scores_of_stage(s, rows.score_scale, norms);
    }
    release_keys();
    if constexpr (Config::kIsGeneral) {
      if constexpr (Config::kChangesScores) change_scores(s, tile);
      rows.weigh(s, rows.mask_of(s, tile), weight_factor);
      return;
    }
    if constexpr (Config::kSkipTiles) {
      if (skipping.skips(rows, s, tile, group)) return;
    }
    if constexpr (kScalesLater) {
      rows.evaluate_unscaled(s);
    } else {
      rows.evaluate(s);
    }
    rows.mask(s, tile, 0.0f);
    if constexpr (!Config::kNeedsX) {
#pragma unroll
      for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
    }
  }

  // Writes a block of columns of o and what else is saved with it.
  // REQUIRES: no product reads the queries any more.
  LSSAR_DEVICE void write_output(Sums& sums, ForwardWork<Config> work, int dv_block, int stage) {
    // The rows are computed again, so that pass 2 has their registers.
    pin_register(work.first_row);
    rows.place(params, work.rows_of(params, group), warp_group_thread() / kWarpThreads * kWarpRows);
    if constexpr (Config::kIsGeneral) {
      rows.write_columns(params, work.place, dv_block * Shape::kBlockDv, sums.o,
                         {sums.zs.total(0), sums.zs.total(1)});
    } else {
      rows.write_columns(params, work.place, dv_block * Shape::kBlockDv, sums.o, sums.y,
                         {sums.zs.total(0), sums.zs.total(1)}, {sums.t.total(0), sums.t.total(1)});
    }
    if constexpr (Config::kStoresByTma) {
      store_output(tma, shared, work, group, stage, sums.o);
      release_queries(stage);
    }
  }

  // Calls `process` with the number of each chain, and the stage of its first queries.
  template <class Process>
  LSSAR_DEVICE void for_each_chain(const Process& process) {
    if constexpr (Config::kPackGqa) clear_unfilled_rows(params, shared, group);
    if constexpr (UnseenValues<Config>::kMayExist) unseen.place(params);
    ping_pong.begin();
    const u32 count = num_chains<Config>(params);
    if constexpr (Config::kTakesTickets) {
#pragma unroll 1
      for (;;) {
        const int stage = next_query_stage();
        u32 index;
        load_shared(index, shared.work_index(stage));
        if (index >= count) break;
        LSSAR_INLINE_CALL process(index, stage);
      }
    } else {
      for_each_work_tile<Config::kIsPersistent, Shape::kCluster>(count, [&](u32 index) {
        const int stage = next_query_stage();
        LSSAR_INLINE_CALL process(index, stage);
      });
    }
  }
};

}  // namespace lssar_device
