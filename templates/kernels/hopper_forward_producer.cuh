// The loads of the Hopper forward. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_packed.cuh"
#include "templates/kernels/hopper_forward_work.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/cluster_tiles.cuh"
#include "templates/tile/tickets.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// Runs in one thread.
template <class Config>
struct ForwardProducer {
  using Shape = HopperForwardShape<Config>;

  const TmaParams& tma;
  const AttentionParams& params;
  ForwardShared<Config> shared;
  RingCursor<Shape::kStages> cursor;
  RingCursor<Shape::kQueryStages> query_cursor;

  LSSAR_DEVICE ForwardProducer(const TmaParams& tma, ForwardShared<Config> s)
      : tma(tma), params(tma.attention), shared(s) {}

  // Waits until the next query stage is free. The chain's number is stored with the queries.
  LSSAR_DEVICE int open_query_stage(u32 index) {
    const int stage = query_cursor.stage;
    mbarrier_wait(shared.query_ring().empty(stage), query_cursor.parity ^ 1);
    if constexpr (Config::kTakesTickets) store_shared(shared.work_index(stage), index);
    query_cursor.advance();
    return stage;
  }

  LSSAR_DEVICE void load_queries(const ForwardWork<Config>& work, u32 index) {
    using Tile = typename Shape::QueryTile;
    const int stage = open_query_stage(index);
    const u32 full = shared.query_ring().full(stage);
    if constexpr (Config::kPackGqa) {
      load_packed_queries(tma, shared, work, stage, full);
    } else {
      mbarrier_arrive_expect(full, Tile::kBytes);
      load_tile<Tile>(shared.queries(stage).base, tma.maps[kQueryMap], full, 0, work.first_row,
                      work.place.head, work.place.batch);
    }
  }

  // Waits until the next stage is free and announces its bytes; returns its index.
  template <int kBytes>
  LSSAR_DEVICE int open_stage() {
    const RingBarriers<Shape::kStages> ring = shared.ring();
    const int stage = cursor.stage;
    mbarrier_wait(ring.empty(stage), cursor.parity ^ 1);
    mbarrier_arrive_expect(ring.full(stage), kBytes);
    cursor.advance();
    return stage;
  }

  template <class Tile>
  LSSAR_DEVICE void load_keys(ForwardMap map, ForwardMap norm_map, int tile, const BlockPlace& at) {
    const int stage = open_stage<Tile::kBytes + Tile::kRows * 4>();
    const u32 barrier = shared.ring().full(stage);
    load_tile_share<Shape::kCluster, Tile>(shared.stage(stage), tma.maps[map], barrier, 0,
                                           i64{tile} * Tile::kRows, kv_head(at), at.batch);
    tma_load(shared.norms(stage), tma.maps[norm_map], barrier, tile * Tile::kRows,
             at.batch * params.kv_heads + kv_head(at));
  }

  LSSAR_DEVICE void load_values(int tile, int dv_block, const BlockPlace& at) {
    using Tile = typename Shape::ValueTile;
    const int stage = open_stage<Tile::kBytes>();
    load_tile_share<Shape::kCluster, Tile>(shared.stage(stage), tma.maps[kValueMap],
                                           shared.ring().full(stage), dv_block * Shape::kBlockDv,
                                           i64{tile} * Tile::kRows, kv_head(at), at.batch);
  }

  LSSAR_DEVICE int kv_head(const BlockPlace& at) const { return kv_head_of<Config>(params, at); }

  // Pass 1. The first keys come before the queries, because the query tile is free only when the
  // last output has left it.
  LSSAR_DEVICE void load_pass_one(const ForwardWork<Config>& work, u32 index) {
    const int ahead = minimum(work.score_tiles, Shape::kStages);
#pragma unroll 1
    for (int tile = 0; tile <= work.score_tiles; ++tile) {
      if (tile == ahead) load_queries(work, index);
      if (tile < work.score_tiles)
        load_keys<typename Shape::ScoreKeyTile>(kScoreKeyMap, kScoreNormMap, tile, work.place);
    }
  }

  // Pass 2 of a block of value columns, in the order in which consumers take the tiles: with
  // kOverlap, keys are one tile ahead of values. Calls `between(tile)` before each tile.
  template <class Between>
  LSSAR_DEVICE void load_pass_two(const ForwardWork<Config>& work, int dv_block,
                                  const Between& between) {
    constexpr int kAhead = Config::kOverlap ? 1 : 0;
#pragma unroll 1
    for (int tile = 0; tile < work.tiles + kAhead; ++tile) {
      LSSAR_INLINE_CALL between(tile);
      if (tile < work.tiles)
        load_keys<typename Shape::KeyTile>(kKeyMap, kNormMap, tile, work.place);
      if (tile >= kAhead) load_values(tile - kAhead, dv_block, work.place);
    }
  }

  // Calls `load` with the number of each chain of the block.
  template <class Load>
  LSSAR_DEVICE void for_each_chain(const Load& load) {
    const u32 count = ForwardChain<Config>::total(params);
    if constexpr (Config::kTakesTickets) {
      u32 index = block_index();
#pragma unroll 1
      while (index < count) {
        const u32 ticket = take_ticket<Config>(params);
        LSSAR_INLINE_CALL load(index);
        index = ticket_tile<Config>(params, index, ticket);
      }
      // A number past the last chain tells the consumers to stop.
      mbarrier_arrive(shared.query_ring().full(open_query_stage(index)));
    } else {
      for_each_work_tile<Config::kIsPersistent, Shape::kCluster>(count, load);
    }
  }
};

}  // namespace lssar_device
