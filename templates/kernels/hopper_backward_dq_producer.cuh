// The dq kernel's work tiles, shared memory, loads.
//
// See hopper_backward_dq.cuh.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/kernels/tma_sequences.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

template <class Config>
struct HopperDqShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kDqBlockRows;
  static constexpr int kBlockCols = Config::kDqBlockCols;
  static constexpr int kStages = Config::kDqStages;
  static constexpr int kNumConsumers = kBlockRows / kWarpGroupRows;
  static constexpr int kConsumerWarps = kBlockRows / kWarpRows;
  static constexpr int kThreads = (1 + kNumConsumers) * kWarpGroupThreads;

  using QueryTile = SwizzledTile<Element, kBlockRows, Config::kHeadDim>;
  using GradTile = SwizzledTile<Element, kBlockRows, Config::kHeadDimV>;
  using KeyTile = SwizzledTile<Element, kBlockCols, Config::kHeadDim>;
  using ValueTile = SwizzledTile<Element, kBlockCols, Config::kHeadDimV>;

  static constexpr int kBoxAlignment = 128;  // of a TMA box without a swizzle
  static constexpr int kNormBytes = kBlockCols * 4;
  static constexpr int kNormPitch =
      (kNormBytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment;

  static constexpr int kGradsOffset = QueryTile::kBytes;
  static constexpr int kStagesOffset = kGradsOffset + GradTile::kBytes;
  static constexpr int kValuesOffset = KeyTile::kBytes;
  static constexpr int kStageBytes = KeyTile::kBytes + ValueTile::kBytes;
  static constexpr int kNormsOffset = kStagesOffset + kStages * kStageBytes;
  static constexpr int kRingOffset = kNormsOffset + kStages * kNormPitch;
  static constexpr int kQueryRingOffset = kRingOffset + RingBarriers<kStages>::kBytes;
  static constexpr int kSharedBytes = kQueryRingOffset + RingBarriers<1>::kBytes;

  static_assert(kBlockRows % kWarpGroupRows == 0, "a consumer owns 64 queries");
  static_assert(kBlockCols % 16 == 0 && kBlockCols <= 256, "keys are the depth of a wgmma");
  static_assert(!Config::kOverlap || kStages >= 2, "two key tiles are in use together");
};

// TmaParams::maps, in this order.
enum DqMap { kDqQueryMap, kDqGradMap, kDqKeyMap, kDqValueMap, kDqNormMap, kNumDqMaps };

// One tile of queries.
template <class Config>
struct DqWork {
  using Shape = HopperDqShape<Config>;

  BlockPlace place;
  i64 first_row;
  KeyTiles<Config> num_tiles;  // of keys

  LSSAR_DEVICE DqWork(const AttentionParams& params, u32 index) {
    if constexpr (Config::kHasLengths) index = block_of_sequence;
    const i64 queries = seq_q<Config>(params);
    place = work_place<Config::kHeadGroup, Config::kIsCausal>(
        index, ceil_div(queries, Shape::kBlockRows), params.heads, params.batch * params.heads);
    first_row = place.tile_idx * Shape::kBlockRows;
    const i64 last_row = minimum(first_row + Shape::kBlockRows, queries) - 1;
    if constexpr (Config::kHasWindow) {
      num_tiles = visited_tiles<Shape::kBlockCols>(num_visible_keys<Config>(params, first_row),
                                                   num_visible_keys<Config>(params, last_row));
    } else {
      num_tiles =
          static_cast<int>(ceil_div(num_visible_keys<Config>(params, last_row), Shape::kBlockCols));
    }
  }

  static LSSAR_DEVICE u32 count(const AttentionParams& params) {
    return static_cast<u32>(ceil_div(seq_q<Config>(params), Shape::kBlockRows) * params.heads *
                            params.batch);
  }
};

template <class Config>
struct DqShared {
  using Shape = HopperDqShape<Config>;

  u32 base;

  LSSAR_DEVICE typename Shape::QueryTile queries() const { return {base}; }
  LSSAR_DEVICE typename Shape::GradTile grads() const { return {base + Shape::kGradsOffset}; }
  LSSAR_DEVICE typename Shape::KeyTile keys(int stage) const {
    return {base + Shape::kStagesOffset + stage * Shape::kStageBytes};
  }
  LSSAR_DEVICE typename Shape::ValueTile values(int stage) const {
    return {keys(stage).base + Shape::kValuesOffset};
  }
  LSSAR_DEVICE u32 norms(int stage) const {
    return base + Shape::kNormsOffset + stage * Shape::kNormPitch;
  }
  LSSAR_DEVICE RingBarriers<Shape::kStages> ring() const { return {base + Shape::kRingOffset}; }
  LSSAR_DEVICE RingBarriers<1> query_ring() const { return {base + Shape::kQueryRingOffset}; }
};

// One thread.
template <class Config>
struct DqProducer {
  using Shape = HopperDqShape<Config>;

  const TmaParams& tma;
  DqShared<Config> shared;
  RingCursor<Shape::kStages> cursor;
  RingCursor<1> query_cursor;

  LSSAR_DEVICE DqProducer(const TmaParams& tma, DqShared<Config> s) : tma(tma), shared(s) {}

  LSSAR_DEVICE void load_queries(const DqWork<Config>& work) {
    using QueryTile = typename Shape::QueryTile;
    using GradTile = typename Shape::GradTile;
    const RingBarriers<1> ring = shared.query_ring();
    mbarrier_wait(ring.empty(0), query_cursor.parity ^ 1);
    mbarrier_arrive_expect(ring.full(0), QueryTile::kBytes + GradTile::kBytes);
    if constexpr (Config::kHasLengths) return load_sequence_queries(work);
    load_tile<QueryTile>(shared.queries().base, tma.maps[kDqQueryMap], ring.full(0), 0,
                         work.first_row, work.place.head, work.place.batch);
    load_tile<GradTile>(shared.grads().base, tma.maps[kDqGradMap], ring.full(0), 0, work.first_row,
                        work.place.head, work.place.batch);
    query_cursor.advance();
  }

  // kHasLengths: the same from the maps of all sequences. A block loads queries once.
  LSSAR_DEVICE void load_sequence_queries(const DqWork<Config>& work) const {
    const u32 full = shared.query_ring().full(0);
    load_sequence_tile<typename Shape::QueryTile>(shared.queries().base, tma.maps[kDqQueryMap],
                                                  full, 0, tma_sequence.queries, work.first_row,
                                                  work.place.head);
    load_sequence_tile<typename Shape::GradTile>(shared.grads().base, tma.maps[kDqGradMap], full, 0,
                                                 tma_sequence.queries, work.first_row,
                                                 work.place.head);
  }
  LSSAR_DEVICE void load_sequence_keys(int stage, int first_key, int kv_head) const {
    const u32 full = shared.ring().full(stage);
    load_sequence_tile<typename Shape::KeyTile>(shared.keys(stage).base, tma.maps[kDqKeyMap], full,
                                                0, tma_sequence.keys, first_key, kv_head);
    load_sequence_tile<typename Shape::ValueTile>(shared.values(stage).base, tma.maps[kDqValueMap],
                                                  full, 0, tma_sequence.keys, first_key, kv_head);
    load_sequence_norms<Config, Shape::kBlockCols>(shared.norms(stage), full, kv_head, first_key);
  }

  LSSAR_DEVICE void load_keys(int tile, int kv_head, int batch) {
    using KeyTile = typename Shape::KeyTile;
    using ValueTile = typename Shape::ValueTile;
    const RingBarriers<Shape::kStages> ring = shared.ring();
    const int stage = cursor.stage;
    const u32 full = ring.full(stage);
    const int first_key = tile * Shape::kBlockCols;
    mbarrier_wait(ring.empty(stage), cursor.parity ^ 1);
    if constexpr (Config::kHasLengths) {
      const int norms = num_norms<Config, Shape::kBlockCols>(first_key);
      mbarrier_arrive_expect(full, KeyTile::kBytes + ValueTile::kBytes + norms * 4);
      cursor.advance();
      return load_sequence_keys(stage, first_key, kv_head);
    }
    mbarrier_arrive_expect(full, KeyTile::kBytes + ValueTile::kBytes + Shape::kNormBytes);
    load_tile<KeyTile>(shared.keys(stage).base, tma.maps[kDqKeyMap], full, 0, first_key, kv_head,
                       batch);
    load_tile<ValueTile>(shared.values(stage).base, tma.maps[kDqValueMap], full, 0, first_key,
                         kv_head, batch);
    tma_load(shared.norms(stage), tma.maps[kDqNormMap], full, first_key,
             batch * tma.attention.kv_heads + kv_head);
    cursor.advance();
  }

  LSSAR_DEVICE void run() {
    const AttentionParams& params = Config::kHasLengths ? tma_sequence.attention : tma.attention;
    for_each_work_tile<Config::kIsPersistent>(DqWork<Config>::count(params), [&](u32 index) {
      const DqWork<Config> work(params, index);
      load_queries(work);
      const int kv_head = work.place.head / (params.heads / params.kv_heads);
      for (int tile = 0; tile < work.num_tiles; ++tile)
        load_keys(tile_at<Config>(work.num_tiles, tile), kv_head, work.place.batch);
    });
  }
};

}  // namespace lssar_device
