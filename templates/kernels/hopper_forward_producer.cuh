// The loads of the Hopper forward.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_packed.cuh"
#include "templates/kernels/hopper_forward_work.cuh"
#include "templates/kernels/tma_sequences.cuh"
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
      : tma(tma), params(Config::kHasLengths ? tma_sequence.attention : tma.attention), shared(s) {}

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
      if constexpr (Config::kHasLengths)
        return load_sequence_tile<Tile>(shared.queries(stage).base, tma.maps[kQueryMap], full, 0,
                                        tma_sequence.queries, work.first_row, work.place.head);
      load_tile<Tile>(shared.queries(stage).base, tma.maps[kQueryMap], full, 0, work.first_row,
                      work.place.head, work.place.batch);
    }
  }

  // Loads a tile of keys or values, from column `col` on, into the next stage when that is free.
  // Returns its index. kMoreBytes: bytes that the caller also loads into it.
  template <class Tile, int kMoreBytes>
  LSSAR_DEVICE int load_stage(ForwardMap map, int col, int tile, const BlockPlace& at) {
    const int stage = cursor.stage;
    const u32 full = shared.ring().full(stage);
    mbarrier_wait(shared.ring().empty(stage), cursor.parity ^ 1);
    if constexpr (Config::kHasLengths) {
      const int norms = kMoreBytes == 0 ? 0 : num_norms<Config, Tile::kRows>(tile * Tile::kRows);
      mbarrier_arrive_expect(full, Tile::kBytes + norms * 4);
    } else {
      mbarrier_arrive_expect(full, Tile::kBytes + kMoreBytes);
    }
    cursor.advance();
    const int head = kv_head_of<Config>(params, at);
    const i64 row = i64{tile} * Tile::kRows;
    if constexpr (Config::kHasLengths) {
      load_sequence_tile<Tile>(shared.stage(stage), tma.maps[map], full, col, tma_sequence.keys,
                               row, head);
    } else if constexpr (Shape::kCluster > 1) {
      load_tile_share<Shape::kCluster, Tile>(shared.stage(stage), tma.maps[map], full, col, row,
                                             head, at.batch);
    } else {
      load_tile<Tile>(shared.stage(stage), tma.maps[map], full, col, row, head, at.batch);
    }
    return stage;
  }

  template <class Tile>
  LSSAR_DEVICE void load_keys(ForwardMap map, ForwardMap norm_map, int tile, const BlockPlace& at) {
    const int stage = load_stage<Tile, Tile::kRows * 4>(map, 0, tile, at);
    if constexpr (Config::kHasLengths)
      return load_sequence_norms<Config, Tile::kRows>(
          shared.norms(stage), shared.ring().full(stage), kv_head_of<Config>(params, at),
          tile * Tile::kRows);
    tma_load(shared.norms(stage), tma.maps[norm_map], shared.ring().full(stage), tile * Tile::kRows,
             at.batch * params.kv_heads + kv_head_of<Config>(params, at));
  }

  LSSAR_DEVICE void load_values(int tile, int dv_block, const BlockPlace& at) {
    load_stage<typename Shape::ValueTile, 0>(kValueMap, dv_block * Shape::kBlockDv, tile, at);
  }

  // Pass 1. The first keys come before the queries.
  //
  // The query tile is free only when the last output has left it.
  LSSAR_DEVICE void load_pass_one(const ForwardWork<Config>& work, u32 index) {
    const int ahead = minimum(work.score_tiles, Shape::kStages);
#pragma unroll 1
    for (int tile = 0; tile <= work.score_tiles; ++tile) {
      if (tile == ahead) load_queries(work, index);
      if (tile < work.score_tiles)
        load_keys<typename Shape::ScoreKeyTile>(
            kScoreKeyMap, kScoreNormMap, tile_at<Config>(work.score_tiles, tile), work.place);
    }
  }

  // Pass 2 of a block of value columns. Keys are kAhead tiles ahead of values.
  LSSAR_DEVICE void load_pass_two(const ForwardWork<Config>& work, int dv_block) {
    constexpr int kAhead = Config::kOverlap ? 1 : 0;
#pragma unroll 1
    for (int tile = 0; tile < work.tiles + kAhead; ++tile) {
      if (tile < work.tiles)
        load_keys<typename Shape::KeyTile>(kKeyMap, kNormMap, tile_at<Config>(work.tiles, tile),
                                           work.place);
      if (tile >= kAhead)
        load_values(tile_at<Config>(work.tiles, tile - kAhead), dv_block, work.place);
    }
  }

  // Calls `load` with the number of each chain of the block.
  template <class Load>
  LSSAR_DEVICE void for_each_chain(const Load& load) {
    const u32 count = num_chains<Config>(params);
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
