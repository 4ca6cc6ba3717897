// Backward for queries in a kernel of its own, for sm_90a: every sum in one fixed order.
//
//   dq_i = a_i - q̂_i (q̂_i a_i),   a_i = sum_j dS'_ij k_j / |k_j|
//
// A work tile is kBlockRows queries of one head, 64 to a consumer warp group, and all keys they
// see, kBlockCols at a time. dS' feeds dq from registers. Warp group 0 is the producer: one lane
// loads the queries and output gradients of a work tile, and its key tiles into a ring of stages
// (tile/tma_ring.cuh). A block works on every gridDim.x-th tile of queries.
//
// kOverlap: the products of the next tile's scores run beside the product that uses this tile's.
// kPingPong: consumers start products one after another.
//
// Shared memory: query tile, output gradient tile, kDqStages stages of a key and a value tile, the
// stages' reciprocal key norms, barriers of the ring and of the query tile.
// Named barriers: tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dq_producer.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/clear_unseen.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/project.cuh"
#include "templates/tile/query_scores.cuh"
#include "templates/tile/roles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// A warp group.
template <class Config>
struct DqConsumer {
  using Shape = HopperDqShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kKeyMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kKeyMmaTiles>;
  using Operand = typename Mma::template Operand<kKeyMmaTiles>;
  using QueryGrads = Fragment<Config::kHeadDim / kTileCols>;
  using Scale = GradScale<Config>;

  const AttentionParams& params;
  DqShared<Config> shared;
  int group;  // of the consumers
  PingPong<Config::kPingPong, Shape::kNumConsumers> ping_pong;
  RingCursor<Shape::kStages> filled;    // next stage to wait for
  RingCursor<Shape::kStages> released;  // next stage to release
  RingCursor<1> query_cursor;

  // The members below belong to the work tile.
  RowKeys<Config> visible[2];
  i64 first_masked;  // tiles whose end is above this hide keys from some row of the warp
  int num_parts;     // see num_grad_parts; the same for all consumers
  RowConstants constants[2];
  Evaluator evaluator;  // the same for all rows of the warp

  VisibleKeys common;         // kHasWindow: keys that no row of the warp misses
  AlibiRows alibi;            // kHasAlibi
  UnseenRows<Config> unseen;  // kHasWindow: by all rows of the call

  // Sums of one work tile.
  struct Sums {
    QueryGrads dq;
    Operand grads;  // dS' of the tile whose product comes next
    Scale scale;
  };

  LSSAR_DEVICE DqConsumer(const AttentionParams& params, DqShared<Config> s, int g)
      : params(Config::kHasLengths ? tma_sequence.attention : params),
        shared(s),
        group(g),
        ping_pong{g} {}

  // First of the warp's rows in the block.
  LSSAR_DEVICE int warp_row0() const {
    return group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
  }
  LSSAR_DEVICE i64 flat_row(const DqWork<Config>& work, i64 row) const {
    return (i64{work.place.batch} * params.heads + work.place.head) * seq_q<Config>(params) + row;
  }

  LSSAR_DEVICE void place_rows(const DqWork<Config>& work) {
    const i64 first = work.first_row + warp_row0();
    first_masked = num_visible_keys<Config>(params, first);
    num_parts = num_grad_parts<Config>(num_visible_keys<Config>(params, work.first_row));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = first + fragment_row(half);
      visible[half] = num_visible_keys<Config>(params, row);
      constants[half] = no_gradient();
      if (row < seq_q<Config>(params))
        constants[half] = load_row_constants_global(params.row_constants +
                                                    flat_row(work, row) * (kRowConstantBytes / 4));
      if constexpr (Config::kHasAlibi) {
        alibi.slope[half] = alibi_slope<Config>(params, work.place.head);
        alibi.position[half] = row_position<Config>(params, row);
      }
    }
    const u32 demands[2] = {RowLimits{constants[0].limits}.demand(),
                            RowLimits{constants[1].limits}.demand()};
    evaluator = evaluator_for(warp_maximum(demands[0] > demands[1] ? demands[0] : demands[1]));
    if constexpr (Config::kHasLengths) unseen = unseen_in_sequence<Config>(params);
    if constexpr (Config::kHasWindow) place_window(first);
  }

  // `first` is the warp's first row. Any row may see few keys, and the warps of a consumer multiply
  // together.
  LSSAR_DEVICE void place_window(i64 first) {
    const i64 last = minimum(first + kWarpRows, seq_q<Config>(params)) - 1;
    common = common_keys(num_visible_keys<Config>(params, first),
                         num_visible_keys<Config>(params, last));
    num_parts = num_warp_grad_parts<Config>(visible);
    num_parts = consumer_any(group, num_parts > 1) ? 2 : 1;
    if constexpr (!Config::kHasLengths) unseen = unseen_keys<Config>(params);
  }

  // kHasWindow: whether some row of the warp misses a key of the tile at `first_key`.
  LSSAR_DEVICE bool hides_keys(i64 first_key) const {
    if constexpr (!Config::kHasWindow) return false;
    return !common.has_all(first_key, Shape::kBlockCols);
  }

  // kHasWindow: waits for tile `tile`, the next one, and clears its keys and values that no row of
  // the call sees. All consumers call it, before their products with the tile start.
  //
  // Not formatted: lines break as in emitted sources.
  // clang-format off
  LSSAR_DEVICE void clear_unseen(int tile) const {
    const i64 first_key = i64{tile} * Shape::kBlockCols;
    if (!unseen.meets(first_key, Shape::kBlockCols)) return;
    const int stage = filled.stage;
    mbarrier_wait(shared.ring().full(stage), filled.parity);
    constexpr int kThreads = Shape::kNumConsumers * kWarpGroupThreads;
    const int thread = group * kWarpGroupThreads + warp_group_thread();
    for (int i = thread; i < Shape::kBlockCols; i += kThreads)
      if (unseen.has(first_key + i)) store_shared(shared.norms(stage) + i * 4, 0.0f);
    clear_unseen_rows<Config, kThreads>(shared.values(stage), unseen, first_key, 0, Shape::kBlockCols,
                                thread);
    clear_unseen_rows<Config, kThreads>(shared.keys(stage), unseen, first_key, 0, Shape::kBlockCols,
                                thread);
    all_consumers_barrier<Shape::kNumConsumers>();
  }
  // clang-format on

  // kHasLengths: clears those of the consumer's queries and output gradients that lie past the
  // sequence's end. Its warps multiply together, and its rows may share a scale.
  LSSAR_DEVICE void clear_queries(const DqWork<Config>& work) const {
    const int row0 = group * kWarpGroupRows, end_row = row0 + kWarpGroupRows;
    const UnseenInSequence past = unseen_queries<Config>(params);
    if (!past.meets(work.first_row + row0, kWarpGroupRows)) return;
    const int thread = warp_group_thread();
    clear_unseen_rows<Config, kWarpGroupThreads>(shared.queries(), past, work.first_row, row0,
                                                 end_row, thread);
    clear_unseen_rows<Config, kWarpGroupThreads>(shared.grads(), past, work.first_row, row0,
                                                 end_row, thread);
    consumer_barrier(group);
  }

  // REQUIRES: products of the warp that read what the barrier guards have ended.
  LSSAR_DEVICE void release(u32 empty_barrier) const {
    fence_async_shared();  // generic loads come before TMA overwrites what they read
    warp_barrier();
    if (lane_index() == 0) mbarrier_arrive(empty_barrier);
  }
  LSSAR_DEVICE void release_stage() {
    release(shared.ring().empty(released.stage));
    released.advance();
  }

  // Starts s = q kᵀ and d = g vᵀ of the next tile.
  LSSAR_DEVICE void start_scores(Scores& s, Scores& d) {
    mbarrier_wait(shared.ring().full(filled.stage), filled.parity);
    wgmma_fence();
    const RowDescriptors from(shared.queries(), group * kWarpGroupRows, shared.keys(filled.stage));
    start_multiply_transposed<typename Shape::QueryTile, typename Shape::KeyTile>(s, from);
    start_multiply_transposed<typename Shape::GradTile, typename Shape::ValueTile>(
        d, from, Shape::kGradsOffset, Shape::kValuesOffset);
    wgmma_commit();
    filled.advance();
  }

  template <int kPending>
  LSSAR_DEVICE void finish_scores(Scores& s, Scores& d) const {
    finish<kPending>(s);
    pin(d);
  }

  //
  // Not formatted: lines break as in emitted sources.
  // clang-format off
  LSSAR_DEVICE void weigh(Scores& s, Scores& d, int stage, int tile) const {
    const i64 first_key = i64{tile} * Shape::kBlockCols;
    const bool needs_mask =
        Config::kHasWindow ? hides_keys(first_key) :
        (Config::kIsCausal || Config::kIsGeneral) && first_key + Shape::kBlockCols > first_masked;
    if constexpr (Config::kHasAlibi)
      return weigh_queries<Config>(s, d, constants, shared.norms(stage),
                                   AlibiMask<Config>{{visible, first_key, needs_mask}, alibi});
    const QueryMask<Config> mask{visible, first_key, needs_mask};
    if (Config::kNumEvaluators > 2 && evaluator == kLinearSoftplus) {
      weigh_queries<Config, kLinearSoftplus>(s, d, constants, shared.norms(stage), mask);
    } else if (Config::kNumEvaluators > 1 && evaluator == kShortSoftplus) {
      weigh_queries<Config, kShortSoftplus>(s, d, constants, shared.norms(stage), mask);
    } else {
      weigh_queries<Config>(s, d, constants, shared.norms(stage), mask);
    }
  }

  // Starts dq += dS' k of the tile in the oldest stage in use.
  //
  // clang-format on
  LSSAR_DEVICE void start_sum(Sums& sums) const {
    pin(sums.dq);
    pin_operand(sums.grads);
    wgmma_fence();
    start_multiply<Element>(sums.dq, sums.grads, shared.keys(released.stage));
    wgmma_commit();
  }
  LSSAR_DEVICE void finish_sum(Sums& sums) const {
    finish<0>(sums.dq);
    pin_operand(sums.grads);
  }

  // Rounds the gradients of the tile in the oldest stage in use.
  // REQUIRES: no product is in flight.
  LSSAR_DEVICE void round(Sums& sums, Scores& d) const {
    if constexpr (Scale::kIsNeeded) sums.scale.apply(Scale::largest_bits(d), d, sums.dq);
    Mma::round(sums.grads, d);
    if (num_parts == 1) return;
    start_sum(sums);
    finish_sum(sums);
    Mma::subtract(d, sums.grads);
    Mma::round(sums.grads, d);
  }

  LSSAR_DEVICE void add_keys(Sums& sums, KeyTiles<Config> num_tiles) {
    if (num_tiles == 0) return;
    Scores s, d;
    if constexpr (Config::kHasWindow || Config::kHasLengths)
      clear_unseen(tile_at<Config>(num_tiles, 0));
    ping_pong.acquire();
    start_scores(s, d);
    ping_pong.release();
    finish_scores<0>(s, d);
    weigh(s, d, released.stage, tile_at<Config>(num_tiles, 0));
    round(sums, d);
#pragma unroll 1
    for (int tile = 1; tile < num_tiles; ++tile) {
      if constexpr (Config::kHasWindow || Config::kHasLengths)
        clear_unseen(tile_at<Config>(num_tiles, tile));
      ping_pong.acquire();
      if constexpr (Config::kOverlap) {
        const int stage = filled.stage;
        start_scores(s, d);
        start_sum(sums);
        ping_pong.release();
        finish_scores<1>(s, d);
        weigh(s, d, stage, tile_at<Config>(num_tiles, tile));
        finish_sum(sums);
        release_stage();
      } else {
        start_sum(sums);
        finish_sum(sums);
        release_stage();
        start_scores(s, d);
        ping_pong.release();
        finish_scores<0>(s, d);
        weigh(s, d, released.stage, tile_at<Config>(num_tiles, tile));
      }
      round(sums, d);
    }
    start_sum(sums);
    finish_sum(sums);
    release_stage();
  }

  LSSAR_DEVICE void write(Sums& sums, const DqWork<Config>& work) const {
    Scale::multiply(sums.dq, sums.scale.inverse());
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = work.first_row + warp_row0() + fragment_row(half);
      const bool is_row = row < seq_q<Config>(params);
      if constexpr (Config::kHasNorms) {
        const float inverse_norm = is_row ? params.q_inv_norm[flat_row(work, row)] : 0.0f;
        project_row<Mma>(sums.dq, half, shared.queries(), warp_row0(), inverse_norm);
      }
      if (is_row)
        write_row<Config, Config::kHeadDim>(
            row_pointer<Element>(params.grad_q, work.place.batch, work.place.head, row), sums.dq,
            half);
    }
  }

  LSSAR_DEVICE void process(const DqWork<Config>& work) {
    place_rows(work);
    const RingBarriers<1> query_ring = shared.query_ring();
    mbarrier_wait(query_ring.full(0), query_cursor.parity);
    query_cursor.advance();
    if constexpr (Config::kHasLengths) clear_queries(work);
    Sums sums;
    sums.dq.clear();
    add_keys(sums, work.num_tiles);
    write(sums, work);
    release(query_ring.empty(0));
  }

  LSSAR_DEVICE void run() {
    ping_pong.begin();
    for_each_work_tile<Config::kIsPersistent>(DqWork<Config>::count(params), [this](u32 index) {
      process(DqWork<Config>(params, index));
    });
  }
};

// A kernel that goes over the keys of tiles of queries.
template <class Config, class Consumer>
LSSAR_DEVICE void sweep_keys(const TmaParams& tma) {
  using Shape = HopperDqShape<Config>;
  const DqShared<Config> shared{swizzled_shared_address()};
  if (thread_index() == 0) {
    prefetch_maps<kNumDqMaps>(tma);
    shared.ring().init(Shape::kConsumerWarps);
    shared.query_ring().init(Shape::kConsumerWarps);
    fence_mbarrier_init();
  }
  block_barrier();
  run_roles<Config::kDqProducerRegisters, Config::kDqConsumerRegisters>(
      [&] { DqProducer<Config>(tma, shared).run(); },
      [&](int group) { Consumer(tma.attention, shared, group).run(); });
}

template <class Config>
LSSAR_DEVICE void hopper_backward_dq(const TmaParams& tma) {
  sweep_keys<Config, DqConsumer<Config>>(tma);
}

}  // namespace lssar_device
