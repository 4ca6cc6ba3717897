// The producer of the Hopper dk/dv kernel: what a block holds in shared memory, its work tiles, and
// the loads. With kScalesAhead also the warp that scales what the loads bring. See
// hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/scale_ahead.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

template <class Config>
struct HopperDkdvShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kDkdvBlockRows;
  static constexpr int kBlockCols = Config::kDkdvBlockCols;
  static constexpr int kStages = Config::kDkdvStages;
  static constexpr int kNumConsumers = kBlockRows / kWarpGroupRows;
  static constexpr int kConsumerWarps = kBlockRows / kWarpRows;
  static constexpr int kThreads = (1 + kNumConsumers) * kWarpGroupThreads;
  static constexpr int kNumSweeps = Config::kSplitDkdv ? 2 : 1;

  using KeyTile = SwizzledTile<Element, kBlockRows, Config::kHeadDim>;
  using ValueTile = SwizzledTile<Element, kBlockRows, Config::kHeadDimV>;
  using QueryTile = SwizzledTile<Element, kBlockCols, Config::kHeadDim>;
  using GradTile = SwizzledTile<Element, kBlockCols, Config::kHeadDimV>;
  using ScoreTile = SwizzledTile<Element, kBlockRows, kBlockCols>;
  using Constants = PlanarConstants<kBlockCols, kScalesAhead<Config>>;

  // Columns of dq that a consumer computes: half of them, in whole chunks if there are several. The
  // last ones are the second consumer's, so its first columns may also be the other's (d = 192).
  static constexpr int kChunkCols = KeyTile::kChunkCols;
  static constexpr int kPaddedDim = KeyTile::kNumChunks * kChunkCols;
  static constexpr int kHalfDim = KeyTile::kNumChunks == 1
                                      ? (Config::kHeadDim / 2 + 7) / 8 * 8
                                      : (KeyTile::kNumChunks + 1) / 2 * kChunkCols;
  static constexpr int kQueryGradCols = kNumConsumers == 1 ? Config::kHeadDim : kHalfDim;
  static constexpr int kSecondCol = KeyTile::kNumChunks == 1 ? kHalfDim : kPaddedDim - kHalfDim;
  // Every column belongs to exactly one consumer.
  static constexpr bool kSharesAreHalves =
      kSecondCol == kHalfDim && kNumConsumers * kQueryGradCols == Config::kHeadDim;

  static constexpr int kValuesOffset = KeyTile::kBytes;
  static constexpr int kScoresOffset = kValuesOffset + ValueTile::kBytes;
  static constexpr int kStagingOffset =
      kScoresOffset + (Config::kSumsDq ? 2 * ScoreTile::kBytes : 0);
  // kSumsByTma: a warp's 16 rows of its consumer's dq, in boxes of columns. In a box, each eight
  // columns are apart from the others, so that the stores of a warp meet no bank twice.
  static constexpr int kSumCols = KeyTile::kNumChunks == 1 ? kQueryGradCols : kChunkCols;
  static constexpr int kSumBoxes = (kQueryGradCols + kSumCols - 1) / kSumCols;
  static constexpr int kSumBoxBytes = kWarpRows * kSumCols * 4;
  static constexpr int kStagingBytes = kSumBoxes * kSumBoxBytes;  // of a warp
  static constexpr int kStagesOffset =
      kStagingOffset + (Config::kSumsByTma ? kConsumerWarps * kStagingBytes : 0);
  static constexpr int kGradsOffset = QueryTile::kBytes;
  static constexpr int kStageBytes = QueryTile::kBytes + GradTile::kBytes;
  static constexpr int kConstantsOffset = kStagesOffset + kStages * kStageBytes;
  static constexpr int kWordsOffset = kConstantsOffset + kStages * Constants::kBytes;
  static constexpr int kRingOffset = kWordsOffset + (kConsumerWarps + 1) / 2 * 8;
  static constexpr int kOwnedRingOffset = kRingOffset + RingBarriers<kStages>::kBytes;
  static constexpr int kTicketOffset = kOwnedRingOffset + RingBarriers<1>::kBytes;
  static constexpr int kScalesOffset = kTicketOffset + (Config::kOrderedDq ? 2 * kTicketBytes : 0);
  static constexpr int kSharedBytes =
      kScalesOffset + (kScalesAhead<Config> ? StageScales<kStages>::kBytes : 0);

  static_assert(kBlockRows % kWarpGroupRows == 0, "a consumer owns 64 keys");
  static_assert(kBlockCols % 16 == 0 && kBlockCols <= 256, "queries are the depth of a wgmma");
  static_assert(!Config::kSumsDq || (kBlockCols == kWarpGroupRows && kNumConsumers <= 2),
                "the rows of dq's product are one tile's queries");
  static_assert(!Config::kSumsDq || !Config::kPingPong,
                "dS' is exchanged by all consumers at once: there is no ping-pong");
  static_assert(!Config::kSumsByTma || (Config::kSumsDq && !Config::kOrderedDq),
                "TMA adds in no order");
  static_assert(!Config::kOrderedDq || !Config::kIsPersistent,
                "a block takes its work tile when it starts");
};

// TmaParams::maps, in this order.
enum DkdvMap {
  kDkdvKeyMap,
  kDkdvValueMap,
  kDkdvQueryMap,
  kDkdvGradMap,
  kDkdvConstantMap,
  kDkdvSumMap,  // kSumsByTma
};
template <class Config>
inline constexpr int kNumDkdvMaps = kDkdvSumMap + (Config::kSumsByTma ? 1 : 0);

// One tile of keys. Rows are below 2^31.
template <class Config>
struct DkdvWork {
  using Shape = HopperDkdvShape<Config>;

  int tile;
  int head;  // kv head
  int batch;
  int first_key;
  int first_query;  // of the first tile with a query that sees one of the keys

  LSSAR_DEVICE DkdvWork(const AttentionParams& params, u32 index) {
    const i64 num_keys = seq_k<Config>(params);
    const i64 num_queries = seq_q<Config>(params);
    // The first keys have the most queries.
    const BlockPlace place =
        work_place<Config::kHeadGroup, false>(index, ceil_div(num_keys, Shape::kBlockRows),
                                              params.kv_heads, params.batch * params.kv_heads);
    head = place.head;
    batch = place.batch;
    tile = static_cast<int>(place.tile_idx);
    first_key = tile * Shape::kBlockRows;
    const i64 seen =
        Config::kIsCausal ? maximum(first_key + num_queries - num_keys, i64{0}) : i64{0};
    first_query = static_cast<int>(seen / Shape::kBlockCols) * Shape::kBlockCols;
  }

  // REQUIRES: called by whole warps.
  LSSAR_DEVICE DkdvWork as_uniform() const {
    DkdvWork work = *this;
    work.tile = uniform(tile);
    work.head = uniform(head);
    work.batch = uniform(batch);
    work.first_key = uniform(first_key);
    work.first_query = uniform(first_query);
    return work;
  }

  // What is computed from the work tile after this is not computed before it, and kept in registers
  // over a loop that needs them all.
  LSSAR_DEVICE void renew() {
    pin_register(head);
    pin_register(batch);
    pin_register(first_key);
  }

  static LSSAR_DEVICE u32 count(const AttentionParams& params) {
    return static_cast<u32>(ceil_div(seq_k<Config>(params), Shape::kBlockRows) * params.kv_heads *
                            params.batch);
  }
};

// The queries of one step: the tiles of a head, then those of the group's next head.
template <class Config>
struct DkdvItem {
  int head;
  int first_query;
  int remaining;  // with this one

  LSSAR_DEVICE DkdvItem(const AttentionParams& params, const DkdvWork<Config>& work)
      : head(work.head * (params.heads / params.kv_heads)), first_query(work.first_query) {
    constexpr u32 kQueries = HopperDkdvShape<Config>::kBlockCols;
    const u32 queries = static_cast<u32>(maximum(seq_q<Config>(params) - first_query, i64{0}));
    remaining =
        static_cast<int>((queries + (kQueries - 1)) / kQueries) * (params.heads / params.kv_heads);
  }

  // REQUIRES: called by whole warps.
  LSSAR_DEVICE DkdvItem as_uniform() const {
    DkdvItem item = *this;
    item.head = uniform(head);
    item.first_query = uniform(first_query);
    item.remaining = uniform(remaining);
    return item;
  }

  LSSAR_DEVICE bool is_valid() const { return remaining > 0; }
  LSSAR_DEVICE void advance(const AttentionParams& params, const DkdvWork<Config>& work) {
    --remaining;
    first_query += HopperDkdvShape<Config>::kBlockCols;
    if (first_query >= static_cast<int>(seq_q<Config>(params))) {
      first_query = work.first_query;
      ++head;
    }
  }
};

// Addresses in shared memory.
template <class Config>
struct DkdvShared {
  using Shape = HopperDkdvShape<Config>;

  u32 base;

  LSSAR_DEVICE typename Shape::KeyTile keys() const { return {base}; }
  LSSAR_DEVICE typename Shape::ValueTile values() const { return {base + Shape::kValuesOffset}; }
  LSSAR_DEVICE typename Shape::ScoreTile scores(int buffer) const {
    return {base + Shape::kScoresOffset + buffer * Shape::ScoreTile::kBytes};
  }
  LSSAR_DEVICE u32 staging(int warp) const {
    return base + Shape::kStagingOffset + warp * Shape::kStagingBytes;
  }
  LSSAR_DEVICE typename Shape::QueryTile queries(int stage) const {
    return {base + Shape::kStagesOffset + stage * Shape::kStageBytes};
  }
  LSSAR_DEVICE typename Shape::GradTile grads(int stage) const {
    return {queries(stage).base + Shape::kGradsOffset};
  }
  LSSAR_DEVICE typename Shape::Constants constants(int stage) const {
    return {base + Shape::kConstantsOffset + stage * Shape::Constants::kBytes};
  }
  LSSAR_DEVICE u32 words() const { return base + Shape::kWordsOffset; }
  LSSAR_DEVICE RingBarriers<Shape::kStages> ring() const { return {base + Shape::kRingOffset}; }
  LSSAR_DEVICE RingBarriers<1> owned_ring() const { return {base + Shape::kOwnedRingOffset}; }
  LSSAR_DEVICE u32 ticket() const { return base + Shape::kTicketOffset; }
  LSSAR_DEVICE StageScales<Shape::kStages> scales() const { return {base + Shape::kScalesOffset}; }
};

// Calls `process` with each work tile of this block; `ticket`: of kOrderedDq.
template <class Config, class Process>
LSSAR_DEVICE void for_each_dkdv_work(const AttentionParams& params, u32 ticket,
                                     const Process& process) {
  if constexpr (Config::kOrderedDq) {
    LSSAR_INLINE_CALL process(ticket);
  } else {
    for_each_work_tile<Config::kIsPersistent>(DkdvWork<Config>::count(params), process);
  }
}

// One thread.
template <class Config>
struct DkdvProducer {
  using Shape = HopperDkdvShape<Config>;

  const TmaParams& tma;
  DkdvShared<Config> shared;
  RingCursor<Shape::kStages> cursor;
  RingCursor<1> owned_cursor;

  LSSAR_DEVICE DkdvProducer(const TmaParams& tma, DkdvShared<Config> s) : tma(tma), shared(s) {}

  LSSAR_DEVICE void load_owned(const DkdvWork<Config>& work) {
    using KeyTile = typename Shape::KeyTile;
    using ValueTile = typename Shape::ValueTile;
    const RingBarriers<1> ring = shared.owned_ring();
    mbarrier_wait(ring.empty(0), owned_cursor.parity ^ 1);
    mbarrier_arrive_expect(ring.full(0), KeyTile::kBytes + ValueTile::kBytes);
    load_tile<KeyTile>(shared.keys().base, tma.maps[kDkdvKeyMap], ring.full(0), 0, work.first_key,
                       work.head, work.batch);
    load_tile<ValueTile>(shared.values().base, tma.maps[kDkdvValueMap], ring.full(0), 0,
                         work.first_key, work.head, work.batch);
    owned_cursor.advance();
  }

  LSSAR_DEVICE void load_item(const DkdvWork<Config>& work, const DkdvItem<Config>& item) {
    using QueryTile = typename Shape::QueryTile;
    using GradTile = typename Shape::GradTile;
    using Constants = typename Shape::Constants;
    const RingBarriers<Shape::kStages> ring = shared.ring();
    const int stage = cursor.stage;
    const u32 full = ring.full(stage);
    mbarrier_wait(ring.empty(stage), cursor.parity ^ 1);
    mbarrier_arrive_expect(full, QueryTile::kBytes + GradTile::kBytes + Constants::kBytes);
    const int batch = work.batch;
    load_tile<QueryTile>(shared.queries(stage).base, tma.maps[kDkdvQueryMap], full, 0,
                         item.first_query, item.head, batch);
    load_tile<GradTile>(shared.grads(stage).base, tma.maps[kDkdvGradMap], full, 0, item.first_query,
                        item.head, batch);
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
      tma_load(shared.constants(stage).base + plane * Constants::kPlaneBytes,
               tma.maps[kDkdvConstantMap], full, plane * kRowPlaneFloats, item.first_query,
               batch * tma.attention.heads + item.head);
    cursor.advance();
  }

  LSSAR_DEVICE void run(u32 ticket) {
    const AttentionParams& params = tma.attention;
    for_each_dkdv_work<Config>(params, ticket, [&](u32 index) {
      const DkdvWork<Config> work(params, index);
      load_owned(work);
      for (int sweep = 0; sweep < Shape::kNumSweeps; ++sweep)
        for (DkdvItem<Config> item(params, work); item.is_valid(); item.advance(params, work))
          load_item(work, item);
    });
  }
};

// A warp. With kScalesAhead it multiplies the row constants of each stage by the scale of dS',
// which then comes out scaled, and tells when they are ready. The sweep for dv needs no scale.
template <class Config>
struct DkdvScaler {
  using Shape = HopperDkdvShape<Config>;
  using Scale = GradScale<typename Config::Element>;

  const AttentionParams& params;
  DkdvShared<Config> shared;
  RingCursor<Shape::kStages> cursor;
  RingCursor<1> owned_cursor;

  LSSAR_DEVICE DkdvScaler(const TmaParams& tma, DkdvShared<Config> s)
      : params(tma.attention), shared(s) {}

  LSSAR_DEVICE void wait_stage() const {
    mbarrier_wait(shared.ring().full(cursor.stage), cursor.parity);
  }
  LSSAR_DEVICE void arrive(u32 barrier) const {
    fence_async_shared();  // before TMA overwrites what was read or written
    warp_barrier();
    if (lane_index() == 0) mbarrier_arrive(barrier);
  }

  // The largest |v_j| of the work tile's keys, from the words of the consumers.
  LSSAR_DEVICE float value_norm() {
    mbarrier_wait(shared.scales().norms(), owned_cursor.parity);
    owned_cursor.advance();
    u32 norm = 0;  // its bits order like it
    if (lane_index() < Shape::kConsumerWarps) load_shared(norm, shared.words() + lane_index() * 4);
    const u32 largest = warp_maximum(norm);
    arrive(shared.owned_ring().empty(0));  // the words will be of other keys
    return float_from_bits(largest);
  }

  LSSAR_DEVICE void scale_stage(Scale& scale, float norm) {
    pin_register(shared.base);  // so that its parts take no registers of their own
    const auto constants = shared.constants(cursor.stage);
    wait_stage();
    u32 demand;
    const u32 bound = largest_bound(constants, norm, demand);
    const float ratio = scale.template make_room<Scale::kTargetOfBound>(bound);
    store({ratio, demand});  // now, because scaling the rows needs the registers
    scale_rows(constants, scale.factor, scale.inverse());
    if (lane_index() == 0) shared.scales().store_factor(scale.factor);
    finish_stage();
  }
  LSSAR_DEVICE void store(const StageScale& scale) const {
    if (lane_index() == 0) shared.scales().store(cursor.stage, scale);
  }
  LSSAR_DEVICE void finish_stage() {
    arrive(shared.scales().ready(cursor.stage));
    cursor.advance();
  }

  LSSAR_DEVICE void process(const DkdvWork<Config>& work) {
    const int num_items = uniform(DkdvItem<Config>(params, work).remaining);
    if constexpr (Config::kSplitDkdv) {
      for (int i = 0; i < num_items; ++i) {
        wait_stage();
        store({1.0f, warp_maximum(shared.constants(cursor.stage).largest_demand())});
        finish_stage();
      }
    }
    const float norm = value_norm();
    Scale scale;
    for (int i = 0; i < num_items; ++i) scale_stage(scale, norm);
  }

  LSSAR_DEVICE void run() {
    for_each_dkdv_work<Config>(params, 0,
                               [this](u32 index) { process(DkdvWork<Config>(params, index)); });
  }
};

}  // namespace lssar_device
