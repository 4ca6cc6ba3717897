// The loads of the dk/dv kernel.
//
// See hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_work.cuh"
#include "templates/kernels/tma_sequences.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

// Runs in one thread.
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
    if constexpr (Config::kHasLengths) return load_sequence_keys(work);
    load_tile<KeyTile>(shared.keys().base, tma.maps[kDkdvKeyMap], ring.full(0), 0, work.first_key,
                       work.head, work.batch);
    load_tile<ValueTile>(shared.values().base, tma.maps[kDkdvValueMap], ring.full(0), 0,
                         work.first_key, work.head, work.batch);
    owned_cursor.advance();
  }

  // kHasLengths: the same from the maps of all sequences. A block loads keys once.
  LSSAR_DEVICE void load_sequence_keys(const DkdvWork<Config>& work) const {
    const u32 full = shared.owned_ring().full(0);
    load_sequence_tile<typename Shape::KeyTile>(shared.keys().base, tma.maps[kDkdvKeyMap], full, 0,
                                                tma_sequence.keys, work.first_key, work.head);
    load_sequence_tile<typename Shape::ValueTile>(shared.values().base, tma.maps[kDkdvValueMap],
                                                  full, 0, tma_sequence.keys, work.first_key,
                                                  work.head);
  }
  LSSAR_DEVICE void load_sequence_item(int stage, const DkdvItem<Config>& item) const {
    using Constants = typename Shape::Constants;
    const u32 full = shared.ring().full(stage);
    const int queries = static_cast<int>(seq_q<Config>(tma_sequence.attention));
    // Who clears the queries past the end loads constants itself: see load_constants_to_end.
    const bool is_whole = item.first_query + Shape::kBlockCols <= queries;
    mbarrier_arrive_expect(full, Shape::kStageBytes + (is_whole ? Constants::kBytes : 0));
    load_sequence_tile<typename Shape::QueryTile>(
        shared.queries(stage).base, tma.maps[kDkdvQueryMap], full, 0, tma_sequence.queries,
        item.first_query, item.head);
    load_sequence_tile<typename Shape::GradTile>(shared.grads(stage).base, tma.maps[kDkdvGradMap],
                                                 full, 0, tma_sequence.queries, item.first_query,
                                                 item.head);
    if (!is_whole) return;
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
      tma_load(shared.constants(stage).base + plane * Constants::kPlaneBytes,
               tma.maps[kDkdvConstantMap], full, plane * kRowPlaneFloats,
               tma_sequence.first_constants + item.head * queries + item.first_query, 0);
  }

  LSSAR_DEVICE void load_item(const DkdvWork<Config>& work, const DkdvItem<Config>& item) {
    using QueryTile = typename Shape::QueryTile;
    using GradTile = typename Shape::GradTile;
    using Constants = typename Shape::Constants;
    const RingBarriers<Shape::kStages> ring = shared.ring();
    const int stage = cursor.stage;
    const u32 full = ring.full(stage);
    mbarrier_wait(ring.empty(stage), cursor.parity ^ 1);
    if constexpr (Config::kHasLengths) {
      cursor.advance();
      return load_sequence_item(stage, item);
    }
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
    const AttentionParams& params = Config::kHasLengths ? tma_sequence.attention : tma.attention;
    for_each_dkdv_work<Config>(params, ticket, [&](u32 index) {
      const DkdvWork<Config> work(params, index);
      load_owned(work);
      for (int sweep = 0; sweep < Shape::kNumSweeps; ++sweep)
        for (DkdvItem<Config> item(params, work); item.is_valid(); item.advance(params, work))
          load_item(work, item);
    });
  }
};

}  // namespace lssar_device
