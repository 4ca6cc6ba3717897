// The producer of the Hopper forward: what a block holds in shared memory, what producer and
// consumers must agree on, and the loads. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tickets.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

template <class Config>
struct HopperForwardShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kForwardBlockRows;
  static constexpr int kScoreCols = Config::kScoreCols;  // keys of a tile in pass 1
  static constexpr int kBlockCols = Config::kForwardBlockCols;
  static constexpr int kBlockDv = Config::kBlockDv;
  static constexpr int kStages = Config::kForwardStages;
  static constexpr int kNumConsumers = kBlockRows / kWarpGroupRows;
  static constexpr int kThreads = (1 + kNumConsumers) * kWarpGroupThreads;
  static constexpr int kCluster = Config::kCluster;  // blocks that share key and value tiles
  static constexpr int kWorkRows = kCluster * kBlockRows;
  using QueryTiles = lssar_device::QueryTiles<Config, kWarpGroupRows>;  // of a consumer
  static constexpr bool kIsStaggered = Config::kStagger > 1;
  static constexpr int kQueryStages = kIsStaggered ? 2 : 1;
  static constexpr int kNumDvBlocks = (Config::kHeadDimV + kBlockDv - 1) / kBlockDv;

  using QueryTile = SwizzledTile<Element, kBlockRows, Config::kHeadDim>;
  using ScoreKeyTile = SwizzledTile<Element, kScoreCols, Config::kHeadDim>;
  using KeyTile = SwizzledTile<Element, kBlockCols, Config::kHeadDim>;
  using ValueTile = SwizzledTile<Element, kBlockCols, kBlockDv>;
  using WeightTile = SwizzledTile<Element, kBlockRows, kBlockCols>;  // kWeightsInShared
  using OutputTile =
      SwizzledTile<Element, kBlockRows, kBlockDv>;  // kStoresByTma: the query tile's place

  static constexpr int kKeyBytes =
      ScoreKeyTile::kBytes > KeyTile::kBytes ? ScoreKeyTile::kBytes : KeyTile::kBytes;
  static constexpr int kStageBytes = kKeyBytes > ValueTile::kBytes ? kKeyBytes : ValueTile::kBytes;
  static constexpr int kNormAlignment = 128;  // of a TMA box
  static constexpr int kMaxCols = kScoreCols > kBlockCols ? kScoreCols : kBlockCols;
  static constexpr int kNormBytes =
      (kMaxCols * 4 + kNormAlignment - 1) / kNormAlignment * kNormAlignment;

  static constexpr int kWeightTiles = !Config::kWeightsInShared ? 0 : Config::kNeedsX ? 2 : 1;
  static constexpr int kWeightsOffset = kQueryStages * QueryTile::kBytes;
  static constexpr int kStagesOffset = kWeightsOffset + kWeightTiles * WeightTile::kBytes;
  static constexpr int kNormsOffset = kStagesOffset + kStages * kStageBytes;
  static constexpr int kRingOffset = kNormsOffset + kStages * kNormBytes;
  static constexpr int kQueryBarriersOffset = kRingOffset + RingBarriers<kStages>::kBytes;
  static constexpr int kWorkIndexOffset = kQueryBarriersOffset + RingBarriers<kQueryStages>::kBytes;
  static constexpr int kWorkIndicesBytes = Config::kTakesTickets ? kWorkIndexBytes : 0;
  static constexpr int kSharedBytes = kWorkIndexOffset + kWorkIndicesBytes;

  // A lane of each warp, all of which have read norms, releases a stage in every block of the
  // cluster.
  static constexpr int kReleases = kCluster * 4 * kNumConsumers;

  static_assert(kBlockRows % kWarpGroupRows == 0, "a consumer owns 64 queries");
  static_assert(kScoreCols % 8 == 0 && kScoreCols <= 256, "pass 1: columns of one wgmma");
  static_assert(kBlockCols % 16 == 0 && kBlockCols <= 256,
                "keys are the depth of a wgmma in pass 2");
  static_assert(kBlockDv % 8 == 0 && kBlockDv <= 256, "value columns of one wgmma");
  static_assert(!Config::kStoresByTma || OutputTile::kBytes <= QueryTile::kBytes,
                "o goes through the query tile");
  static_assert(!kIsStaggered || (kScoreCols == kBlockCols && kNumDvBlocks == 1 && kCluster == 1 &&
                                  Config::kOverlap && !Config::kQueriesInRegisters),
                "both passes take a tile of keys in one sweep");
  static_assert(!Config::kTakesTickets || (Config::kIsPersistent && kCluster == 1),
                "a block of its own takes a ticket after the other");
  static_assert(kStages >= 2, "a key tile and the value tile before it are in use together");
};

// TmaParams::maps, in this order.
enum ForwardMap {
  kQueryMap,
  kScoreKeyMap,
  kKeyMap,
  kValueMap,
  kScoreNormMap,
  kNormMap,
  kOutputMap,  // kStoresByTma
};
template <class Config>
inline constexpr int kNumForwardMaps = kOutputMap + (Config::kStoresByTma ? 1 : 0);

// What producer and consumers must agree on about one tile of queries; all blocks of a cluster take
// as many key tiles as the last of their queries sees.
template <class Config>
struct ForwardWork {
  using Shape = HopperForwardShape<Config>;

  BlockPlace place;
  i64 first_row;    // of the slice's (tile/query_tiles.cuh)
  int score_tiles;  // key tiles of pass 1
  int tiles;        // of pass 2

  LSSAR_DEVICE ForwardWork(const AttentionParams& params, const BlockPlace& at) : place(at) {
    const i64 first = place.tile_idx * Shape::kWorkRows;
    first_row = first;
    if constexpr (Shape::kCluster > 1) first_row += cluster_rank() * Shape::kBlockRows;
    const i64 keys = num_visible_keys<Config>(params, last_query(params, first + Shape::kWorkRows));
    score_tiles = static_cast<int>(ceil_div(keys, Shape::kScoreCols));
    tiles = static_cast<int>(ceil_div(keys, Shape::kBlockCols));
  }

  // The last query of the slice's rows below `end`.
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

// What a block takes at a time: kStagger neighbouring query tiles of a head, fewer at its end.
template <class Config>
struct ForwardChain {
  using Shape = HopperForwardShape<Config>;

  BlockPlace place;  // of the chain
  int count;         // query tiles

  LSSAR_DEVICE ForwardChain(const AttentionParams& params, u32 index) {
    const typename Shape::QueryTiles cut(params);
    const i64 tiles = ceil_div(cut.rows_of_slice(), Shape::kWorkRows);
    place = work_place<Config::kHeadGroup, Config::kIsCausal>(
        index, ceil_div(tiles, Config::kStagger), cut.slices, params.batch * cut.slices);
    const i64 left = tiles - place.tile_idx * Config::kStagger;
    count = Shape::kIsStaggered ? static_cast<int>(minimum(left, i64{Config::kStagger})) : 1;
  }

  // Its query tiles: none sees more keys than the one before.
  LSSAR_DEVICE ForwardWork<Config> work(const AttentionParams& params, int i) const {
    BlockPlace at = place;
    if constexpr (Shape::kIsStaggered)
      at.tile_idx = place.tile_idx * Config::kStagger + count - 1 - i;
    return {params, at};
  }

  // Of the whole grid.
  static LSSAR_DEVICE u32 total(const AttentionParams& params) {
    const typename Shape::QueryTiles cut(params);
    const i64 chains = ceil_div(cut.rows_of_slice(), i64{Shape::kWorkRows} * Config::kStagger);
    return static_cast<u32>(chains * cut.slices * params.batch);
  }
};

// Addresses in shared memory.
template <class Config>
struct ForwardShared {
  using Shape = HopperForwardShape<Config>;

  u32 base;

  LSSAR_DEVICE typename Shape::QueryTile queries(int stage = 0) const {
    return {base + stage * Shape::QueryTile::kBytes};
  }
  LSSAR_DEVICE u32 stage(int stage) const {
    return base + Shape::kStagesOffset + stage * Shape::kStageBytes;
  }
  // Of the weights; 1: for training, of u^(p-1).
  LSSAR_DEVICE typename Shape::WeightTile weights(int which) const {
    return {base + Shape::kWeightsOffset + which * Shape::WeightTile::kBytes};
  }
  LSSAR_DEVICE typename Shape::OutputTile output(int stage) const { return {queries(stage).base}; }
  LSSAR_DEVICE u32 norms(int stage) const {
    return base + Shape::kNormsOffset + stage * Shape::kNormBytes;
  }
  LSSAR_DEVICE RingBarriers<Shape::kStages> ring() const { return {base + Shape::kRingOffset}; }
  LSSAR_DEVICE RingBarriers<Shape::kQueryStages> query_ring() const {
    return {base + Shape::kQueryBarriersOffset};
  }
  // kTakesTickets: the chain whose queries are in the stage. Written before the queries' barrier is
  // full, read before they are released.
  LSSAR_DEVICE u32 work_index(int stage) const {
    return base + Shape::kWorkIndexOffset + stage * 4;
  }
};

// One thread.
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

  // Waits until the next stage for queries is free; the chain's number goes with them.
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
      load_packed(work, stage, full);
    } else {
      mbarrier_arrive_expect(full, Tile::kBytes);
      load_tile<Tile>(shared.queries(stage).base, tma.maps[kQueryMap], full, 0, work.first_row,
                      work.place.head, work.place.batch);
    }
  }

  // kPackGqa: whole queries to each consumer's rows. The rows past them, of no query, keep what the
  // consumer has put there: zeros or, kStoresByTma, their o.
  LSSAR_DEVICE void load_packed(const ForwardWork<Config>& work, int stage, u32 full) {
    using Tile = typename Shape::QueryTile;
    const int box_bytes = typename Shape::QueryTiles(params).box_rows() * kSwizzleBytes;
    mbarrier_arrive_expect(full, Shape::kNumConsumers * Tile::kNumChunks * box_bytes);
#pragma unroll
    for (int consumer = 0; consumer < Shape::kNumConsumers; ++consumer) {
      const QueryRows<Config> rows = work.rows_of(params, consumer);
      const u32 address = shared.queries(stage).base + consumer * kWarpGroupRows * kSwizzleBytes;
#pragma unroll
      for (int chunk = 0; chunk < Tile::kNumChunks; ++chunk)
        tma_load(address + chunk * Tile::kChunkBytes, tma.maps[kQueryMap], full,
                 chunk * Tile::kChunkCols, rows.head - work.place.head * rows.group,
                 static_cast<int>(rows.first), work.place.head, work.place.batch);
    }
  }

  // kTakesTickets: `index` is past the last chain, and there is nothing more to come.
  LSSAR_DEVICE void announce_end(u32 index) {
    mbarrier_arrive(shared.query_ring().full(open_query_stage(index)));
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

  // Pass 1. The first keys come before the queries, whose tile is free only when the last output
  // has left it.
  LSSAR_DEVICE void load_pass_one(const ForwardWork<Config>& work, u32 index) {
    const int ahead = minimum(work.score_tiles, Shape::kStages);
#pragma unroll 1
    for (int tile = 0; tile <= work.score_tiles; ++tile) {
      if (tile == ahead) load_queries(work, index);
      if (tile < work.score_tiles)
        load_keys<typename Shape::ScoreKeyTile>(kScoreKeyMap, kScoreNormMap, tile, work.place);
    }
  }

  // Pass 2 of a dv_block of columns, in the order the consumers take it: with kOverlap, keys are
  // one tile ahead of values. Calls `between(tile)` before each tile.
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

  LSSAR_DEVICE void load(u32 index) {
    const ForwardChain<Config> chain(params, index);
    ForwardWork<Config> work = chain.work(params, 0);
    load_pass_one(work, index);
    if constexpr (!Shape::kIsStaggered) {
      for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block)
        load_pass_two(work, dv_block, [](int) {});
    } else {
#pragma unroll 1
      for (int i = 1; i <= chain.count; ++i) {
        // The next queries, which the first products wait for, once the stages are filled: their
        // tile may be free only when the last output has left it.
        const ForwardWork<Config> next = chain.work(params, minimum(i, chain.count - 1));
        const int ahead = i < chain.count ? minimum(work.tiles, Shape::kStages / 2) : -1;
        load_pass_two(work, 0, [&](int tile) {
          if (tile == ahead) load_queries(next, index);
        });
        work = next;
      }
    }
  }

  LSSAR_DEVICE void run() {
    const u32 count = ForwardChain<Config>::total(params);
    if constexpr (Config::kTakesTickets) {
      u32 index = block_index();
#pragma unroll 1
      while (index < count) {
        const u32 ticket = take_ticket<Config>(params);
        load(index);
        index = ticket_tile<Config>(params, index, ticket);
      }
      announce_end(index);
    } else {
      for_each_work_tile<Config::kIsPersistent, Shape::kCluster>(
          count, [this](u32 index) { load(index); });
    }
  }
};

}  // namespace lssar_device
