// Forward of LSSA and LSSAR for sm_90a: the two passes of forward.cuh with TMA, wgmma and warps
// that have a role.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// Warp group 0 is the producer: one lane loads query tiles, and key and value tiles in the order of
// their use into a ring of slots (tile/tma_ring.cuh). Each other warp group is a consumer and owns
// 64 of the BLOCK_M queries, 16 to a warp. With kIsPersistent a block works on tile after tile of
// queries: dealt out in turns or, with kTakesTickets, taken by the producer when there is time
// (tile/tickets.cuh), which tells the consumers with the queries.
//
// kHasUnitKeys: keys arrive as unit vectors in fp16, queries are scaled to match, and products are
// scores in bits; else products of the raw q and k get their norms in float32.
// kOverlap: the next product of keys is in flight beside this tile's arithmetic, in pass 2 together
// with the product of the last tile's weights and values.
// kQueriesInRegisters: a consumer's queries are the products' operand in registers, read once; the
// query tile is free for the next work tile at once.
// kPingPong: consumers take turns in starting products, so that one's arithmetic runs beside the
// other's products.
// kWeightsInShared: hopper_forward_sums.cuh.
// kStoresByTma: o goes through the query tile, which is the next work tile's only then.
// kCluster: blocks of consecutive query tiles of a head, which share the loads of keys and values
// (tile/tma_ring.cuh).
// kSkipTiles: in pass 2 a warp whose tile has no score with a weight above 2^-24 does no arithmetic
// on it, and a consumer of such warps starts no product with its values.
//
// Shared memory: query tile; kForwardStages slots of a key or value tile; per slot the reciprocal
// key norms (without kHasUnitKeys); barriers of the ring, and two of the query tile; with
// kTakesTickets, the number of the work tile. Named
// barriers: tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/kernels/hopper_forward_sums.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/forward_rows.cuh"
#include "templates/tile/roles.cuh"
#include "templates/tile/score_fragment.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/unit_rows.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// A warp group.
template <class Config>
struct ForwardConsumer {
  using Shape = HopperForwardShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr bool kReleasesQueriesLast =
      !Config::kQueriesInRegisters && !Config::kStoresByTma;
  static constexpr int kScoreTiles = Shape::BLOCK_N1 / kTileCols;
  static constexpr int kKeyTiles = Shape::BLOCK_N / kTileCols;
  using ScoreSums = PassOneSums<Config, kScoreTiles>;
  using Scores = Fragment<kKeyTiles>;
  using Sums = ForwardSums<Config>;

  const TmaParams& params;
  const AttentionParams& p;
  ForwardShared<Config> shared;
  int group;  // of the consumers
  ConsumerTurns<Config::kPingPong, Shape::kNumConsumers> turns;
  RingCursor<Shape::kSlots> filled;    // next slot to wait for
  RingCursor<Shape::kSlots> released;  // next slot to give back
  RingCursor<1> query_cursor;
  ForwardRows<Config> rows;
  ColumnsOperand<typename Shape::ScoreElement, Config::kHeadDim> queries;  // kQueriesInRegisters
  i64 first_masked;  // tiles whose end is above this may hide keys from some row of the warp
  bool group_has_weights = true;  // kSkipTiles

  LSSAR_DEVICE ForwardConsumer(const TmaParams& tma, ForwardShared<Config> s, int g)
      : params(tma), p(tma.attention), shared(s), group(g), turns{g} {}

  // The address of the next slot, once it is filled.
  LSSAR_DEVICE u32 next_slot() {
    mbarrier_wait(shared.ring().full(filled.slot), filled.parity);
    const u32 address = shared.slot(filled.slot);
    filled.advance();
    return address;
  }

  // REQUIRES: products that read the oldest slot in use have ended, and so have, with a fence and a
  // barrier of the warp, other reads.
  LSSAR_DEVICE void release_slot() {
    const int thread = Config::kHasUnitKeys ? warp_group_thread() : lane_index();
    release<Shape::kCluster>(shared.ring().empty(released.slot), thread);
    released.advance();
  }

  template <class Tile, int kTiles>
  LSSAR_DEVICE void start_scores(Fragment<kTiles>& s) {
    const Tile keys{next_slot()};
    wgmma_fence();
    if constexpr (Config::kQueriesInRegisters) {
      start_multiply_transposed<typename Shape::ScoreElement, Config::kHeadDim>(s, queries, keys);
    } else {
      start_multiply_transposed(s, shared.queries(), group * kWarpGroupRows, keys);
    }
    wgmma_commit();
  }

  // Products of the oldest slot in use -> scores in bits, and the slot is free.
  template <int kTiles>
  LSSAR_DEVICE void finish_scores(Fragment<kTiles>& s) {
    if constexpr (!Config::kHasUnitKeys) {
      scale_scores(s, rows.score_scale, shared.norms(released.slot));
      fence_async_shared();  // norms were read before TMA overwrites them
      warp_barrier();
    }
    release_slot();
  }

  LSSAR_DEVICE bool needs_mask(i64 end) const { return end > first_masked; }

  LSSAR_DEVICE void add_scores(ScoreSums& sums, Fragment<kScoreTiles>& s, int tile) {
    finish_scores(s);
    const i64 first = i64{tile} * Shape::BLOCK_N1;
    if (needs_mask(first + Shape::BLOCK_N1)) mask_keys(s, rows.visible, first, -infinity());
    sums.add(s);
  }

  LSSAR_DEVICE void start_score_tile(Fragment<kScoreTiles>& s) {
    turns.take();
    start_scores<typename Shape::ScoreKeyTile>(s);
    turns.pass();
  }

  // One tile's products are in flight in turn in `even` and `odd` while the other is added up.
  // NOTE: no product starts under a condition within the loop: the assembler would then wait for
  // each (C7514).
  LSSAR_DEVICE void add_overlapped(ScoreSums& sums, int num_tiles) {
    Fragment<kScoreTiles> even, odd;
    start_score_tile(even);
    int tile = 0;
#pragma unroll 1
    for (; tile + 2 < num_tiles; tile += 2) {
      start_score_tile(odd);
      finish<1>(even);
      add_scores(sums, even, tile);
      start_score_tile(even);
      finish<1>(odd);
      add_scores(sums, odd, tile + 1);
    }
    if (tile + 1 < num_tiles) {
      start_score_tile(odd);
      finish<1>(even);
      add_scores(sums, even, tile);
      finish<0>(odd);
      add_scores(sums, odd, tile + 1);
    } else {
      finish<0>(even);
      add_scores(sums, even, tile);
    }
  }

  LSSAR_DEVICE void pass_one(int num_tiles) {
    ScoreSums sums;
    sums.clear();
    if constexpr (Config::kOverlap) {
      if (num_tiles > 0) add_overlapped(sums, num_tiles);
    } else {
#pragma unroll 1
      for (int tile = 0; tile < num_tiles; ++tile) {
        Fragment<kScoreTiles> s;
        start_score_tile(s);
        finish<0>(s);
        add_scores(sums, s, tile);
      }
    }
    rows.finish_pass_one(sums);
  }

  // Scores -> u, and without X on to the weights.
  LSSAR_DEVICE void weigh(Scores& s, int tile) {
    finish_scores(s);
    if constexpr (Config::kSkipTiles) {
      const bool is_skipped = rows.has_no_weights(s);
      group_has_weights = consumer_any(group, !is_skipped);
      if (is_skipped) {
        s.clear();
        return;
      }
    }
    rows.evaluate(s);
    const i64 first = i64{tile} * Shape::BLOCK_N;
    if (needs_mask(first + Shape::BLOCK_N)) mask_keys(s, rows.visible, first, 0.0f);
    if constexpr (!Config::kNeedsX) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(s.at[n][e]);
    }
  }

  // Of the last tile weighed: false in all of the warp group, or in none of it.
  LSSAR_DEVICE bool has_weights() const { return !Config::kSkipTiles || group_has_weights; }

  // A tile of pass 2 but the first: its scores, and what the weights of the tile before add up to,
  // if there are any (kHasWeights); else its values are given back unread.
  // NOTE: the order of slots is the producer's.
  template <bool kHasWeights>
  LSSAR_DEVICE void next_tile(Sums& sums, Scores& s, int tile) {
    constexpr int kInFlight = Config::kOverlap && kHasWeights ? 1 : 0;
    turns.take();
    if constexpr (Config::kOverlap) start_scores<typename Shape::KeyTile>(s);
    const typename Shape::ValueTile values{next_slot()};
    if constexpr (kHasWeights) sums.start(values);
    if constexpr (!Config::kOverlap) start_scores<typename Shape::KeyTile>(s);
    turns.pass();
    finish<kInFlight>(s);
    if constexpr (Config::kOverlap) weigh(s, tile);
    if constexpr (kHasWeights) sums.finish_products();
    release_slot();
    if constexpr (!Config::kOverlap) weigh(s, tile);
  }

  LSSAR_DEVICE void pass_two(Sums& sums, int num_tiles) {
    if (num_tiles == 0) return;
    Scores s;
    turns.take();
    start_scores<typename Shape::KeyTile>(s);
    turns.pass();
    finish<0>(s);
    weigh(s, 0);
    sums.round(s);
    // NOTE: all products of a tile end before the next branch: see start_score_tile.
#pragma unroll 1
    for (int tile = 1; tile < num_tiles; ++tile) {
      if (has_weights()) {
        next_tile<true>(sums, s, tile);
      } else {
        next_tile<false>(sums, s, tile);
      }
      sums.round(s);
    }
    const typename Shape::ValueTile values{next_slot()};
    if (has_weights()) {
      sums.start(values);
      sums.finish_products();
    }
    release_slot();
  }

  // REQUIRES: the consumer's reads of the query tile have ended.
  LSSAR_DEVICE void release_queries() const {
    if (warp_group_thread() == 0) mbarrier_arrive(shared.query_ring().empty(0));
  }

  LSSAR_DEVICE void prepare_queries() {
    const int row0 = group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
    const auto tile = shared.queries();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + fragment_row(half);
      rows.score_scale[half] =
          rows.scale_from_norm(half, tile_row_inverse_norm<Config, Mma>(tile, row));
      if constexpr (Config::kHasUnitKeys)
        scale_row<Config, Mma>(tile, row, rows.score_scale[half] * kUnitKeyScaleInverse);
    }
    if constexpr (Config::kQueriesInRegisters) {
      warp_barrier();  // a row is scaled by four lanes and read by others
      load_operand(queries, tile, row0);
    }
    // Before products read what was written, or TMA overwrites what was read; before that comes the
    // fence of store_output.
    if constexpr (Config::kHasUnitKeys || !Config::kStoresByTma) fence_async_shared();
    consumer_barrier(group);
    if constexpr (Config::kQueriesInRegisters) release_queries();
  }

  // kStoresByTma: o, in place of the consumer's queries, and from there to global memory.
  // REQUIRES: write_columns has divided it by its weights.
  LSSAR_DEVICE void store_output(const typename Sums::Columns& o, const ForwardWork<Config>& work) {
    using Tile = typename Shape::OutputTile;
    const int first = group * kWarpGroupRows;
    typename Mma::template Operand<Shape::BLOCK_DV / kTileCols> rounded;
    Mma::round(rounded, o);
    store_operand(shared.output(), first + warp_group_thread() / kWarpThreads * kWarpRows, rounded);
    fence_async_shared();
    consumer_barrier(group);
    if (warp_group_thread() == 0) {
#pragma unroll
      for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
        tma_store(params.maps[kOutputMap<Config>],
                  shared.output().base + chunk * Tile::kChunkBytes + first * kSwizzleBytes,
                  chunk * Tile::kChunkCols, static_cast<int>(work.first_row) + first,
                  work.place.head, work.place.batch);
      bulk_commit();
      bulk_wait_read<0>();
    }
    release_queries();
  }

  LSSAR_DEVICE void wait_for_queries() {
    mbarrier_wait(shared.query_ring().full(0), query_cursor.parity);
    query_cursor.advance();
  }

  // REQUIRES: its queries have come.
  LSSAR_DEVICE void process(const ForwardWork<Config>& work) {
    const i64 first =
        work.first_row + group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
    rows.place(p, first);
    first_masked = first + kWarpRows > seq_q<Config>(p) ? 0 : num_visible_keys<Config>(p, first);
    prepare_queries();
    pass_one(work.score_tiles);
#pragma unroll 1
    for (int chunk = 0; chunk < Shape::kNumChunks; ++chunk) {
      Sums sums(shared, group);
      sums.clear();
      pass_two(sums, work.tiles);
      if (kReleasesQueriesLast && chunk == Shape::kNumChunks - 1) release_queries();
      rows.template write_columns<!Config::kStoresByTma>(
          p, work.place, chunk * Shape::BLOCK_DV, sums.o, sums.y,
          {{sums.zs.total(0), sums.zs.total(1)}, {sums.t.total(0), sums.t.total(1)}});
      if constexpr (Config::kStoresByTma) store_output(sums.o, work);
    }
  }

  LSSAR_DEVICE void run() {
    turns.begin();
    const u32 count = ForwardWork<Config>::count(p);
    if constexpr (Config::kTakesTickets) {
#pragma unroll 1
      for (;;) {
        wait_for_queries();
        u32 index;
        load_shared(index, shared.ticket());
        if (index >= count) break;
        process(ForwardWork<Config>(p, index));
      }
    } else {
      for_each_work_tile<Config::kIsPersistent, Shape::kCluster>(count, [this](u32 index) {
        wait_for_queries();
        process(ForwardWork<Config>(p, index));
      });
    }
  }
};

template <class Config>
LSSAR_DEVICE void hopper_forward(const TmaParams& params) {
  using Shape = HopperForwardShape<Config>;
  const ForwardShared<Config> shared{swizzled_shared_address()};
  if (thread_index() == 0) {
    shared.ring().init(Shape::kReleases);
    shared.query_ring().init(Shape::kNumConsumers);
    fence_mbarrier_init();
  }
  if constexpr (Shape::kCluster > 1) {
    cluster_barrier();
  } else {
    block_barrier();
  }
  run_roles<Config::kForwardProducerRegisters, Config::kForwardConsumerRegisters>(
      [&] { ForwardProducer<Config>(params, shared).run(); },
      [&](int group) { ForwardConsumer<Config>(params, shared, group).run(); });
  // No block ends while others' copies and releases may come to it.
  if constexpr (Shape::kCluster > 1) cluster_barrier();
}

}  // namespace lssar_device
