// Backward for keys and values, for sm_90a.
//
// With kSumsDq also for queries.
//
//   dv_j = sum_i M_ij g_i
//   dk_j = a_j - k̂_j (k̂_j a_j),   a_j = sum_i dS'_ij q_i / |k_j|
//   with dq: dq sums += dS'_ij k_j / |k_j|, as blocks come or in the order of keys
//
// A work tile is kBlockRows keys of one kv head, 64 to a consumer warp group, and all queries of
// every head that reads them, kBlockCols at a time. Scores are computed transposed (keys as rows),
// so that M and dS' feed dv and dk from registers. Warp group 0 is the producer. kSplitDkdv: one
// sweep over the queries for dv, a second one for dk.
//
// Products start 16 queries at a time, as soon as those are weighed, and run beside the arithmetic
// of the next 16. So do the products of the weights, and those of dS' where no scale of the whole
// tile is needed (all but fp16 with kSumsDq). The scores of the next tile do not start early,
// because at d = 128 there are no registers for them. kPingPong: consumers start the products of
// scores one after another.
//
// kScalesAhead: a warp of the producer's group finds fp16's scale of dS' and multiplies the row
// constants by it (tile/scale_ahead.cuh) before consumers read them.
//
// kSumsDq: dS' of all consumers goes through shared memory. It is double-buffered, so that one
// barrier per tile is enough. Each consumer computes a share of the columns of dq.
//
// kSumsByTma: dq then goes through shared memory too, and TMA adds it from there to the sums.
//
// Shared memory: key tile, value tile, dS' tiles; parts of dq with kSumsByTma; kDkdvStages stages
// of a query tile, an output gradient tile and row constants; a word per consumer warp; barriers;
// the block's ticket; the scales of the stages.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_producer.cuh"
#include "templates/kernels/hopper_backward_dkdv_rows.cuh"
#include "templates/kernels/hopper_backward_dkdv_scaler.cuh"
#include "templates/kernels/hopper_backward_dkdv_sum.cuh"
#include "templates/kernels/hopper_backward_dkdv_work.cuh"
#include "templates/kernels/tma_sequences.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/dq_turns.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/roles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// A warp group.
template <class Config>
struct DkdvConsumer : DkdvKeyRows<Config> {
  using Part = DkdvKeyRows<Config>;
  using Shape = HopperDkdvShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kQueryMmaTiles = Shape::kBlockCols / kTileCols;
  static constexpr int kSteps = kQueryMmaTiles / 2;  // 16 queries: the depth of a product
  using Scores = Fragment<kQueryMmaTiles>;
  using Operand = typename Mma::template Operand<kQueryMmaTiles>;
  using typename Part::KeyGrads;
  using typename Part::QueryGrads;
  using typename Part::ValueGrads;
  using Work = DkdvWork<Config>;
  using Item = DkdvItem<Config>;
  using Scale = GradScale<Config>;
  // Whether dS' is rounded at once, because it needs no scale of the whole tile.
  static constexpr bool kRoundsAtOnce = !Scale::kIsNeeded || kScalesAhead<Config>;
  // A sum over keys needs dS' / |k_j|. With a scale of the tile, the norm is multiplied in together
  // with it.
  static constexpr bool kGradHasKeyNorm = Config::kSumsDq || !kRoundsAtOnce;
  // Rows of dk and dv past the end are not written, whatever they are, but must not change others.
  static constexpr bool kHidesPastEnd = Config::kIsGeneral && (Config::kSumsDq || Scale::kIsNeeded);
  // If weights do not keep NaN, dv takes the NaN of a row from dk.
  static constexpr bool kWeightsKeepNan = Config::kSplitDkdv || Config::kIsGeneral;

  using Part::group_row0;
  using Part::key_norm;
  using Part::params;
  using Part::shared;
  using Part::warp_row0;
  PingPong<Config::kPingPong, Shape::kNumConsumers> ping_pong;
  RingCursor<Shape::kStages> cursor;  // stage in use, or to wait for
  RingCursor<1> owned_cursor;

  LSSAR_DEVICE DkdvConsumer(const TmaParams& tma, DkdvShared<Config> s, int g)
      : Part{{Config::kHasLengths ? tma_sequence.attention : tma.attention, tma.maps[kDkdvSumMap],
              s, g},
             {}},
        ping_pong{g} {}

  // Sums of one work tile.
  struct Sums {
    ValueGrads dv;
    KeyGrads dk;
    Scale scale;
    Scale weight_scale;  // kScalesWeights: the weights' scale, as for gradients
  };

  LSSAR_DEVICE void release_stage() {
    fence_async_shared();  // row constants were read before TMA overwrites them
    warp_barrier();
    if (lane_index() == 0) mbarrier_arrive(shared.ring().empty(cursor.stage));
    cursor.advance();
  }

  LSSAR_DEVICE void wait_stage() const {
    mbarrier_wait(shared.ring().full(cursor.stage), cursor.parity);
  }

  // kScalesAhead: waits until the stage's row constants carry the scale.
  //
  // Without kScalesAhead the ratio is 1.
  LSSAR_DEVICE StageScale wait_scaled() const {
    if constexpr (kScalesAhead<Config>) {
      mbarrier_wait(shared.scales().ready(cursor.stage), cursor.parity);
      return shared.scales().load(cursor.stage);
    } else if constexpr (Config::kIsGeneral) {
      return {1.0f, 0};
    } else {
      return {1.0f, warp_maximum(shared.constants(cursor.stage).largest_demand())};
    }
  }

  // kHasAlibi: the row constants of the item, which is in this stage.
  LSSAR_DEVICE AlibiConstants<typename Shape::Constants> alibi_constants(int stage,
                                                                         const Work& work,
                                                                         const Item& item) const {
    const i64 distance = row_position<Config>(params, item.first_query) - work.first_key;
    return {shared.constants(stage), alibi_slope<Config>(params, item.head),
            static_cast<float>(distance)};
  }

  // Starts s = k qᵀ and, for dk, d = v gᵀ of the tile in the cursor's stage.
  template <bool kWithDk>
  LSSAR_DEVICE void start_scores(Scores& s, Scores& d) const {
    ping_pong.acquire();
    wgmma_fence();
    const RowDescriptors from(shared.keys(), group_row0(), shared.queries(cursor.stage));
    start_multiply_transposed<typename Shape::KeyTile, typename Shape::QueryTile>(s, from);
    if constexpr (kWithDk)
      start_multiply_transposed<typename Shape::ValueTile, typename Shape::GradTile>(
          d, from, Shape::kValuesOffset, Shape::kGradsOffset);
    wgmma_commit();
    ping_pong.release();
  }
  template <bool kWithDk>
  LSSAR_DEVICE void finish_scores(Scores& s, Scores& d) const {
    finish<0>(s);
    if constexpr (kWithDk) pin(d);
  }

  // The first query that sees all keys of the warp group; at most kWarpGroupRows past the end.
  LSSAR_DEVICE int first_unmasked(const Work& work) const {
    if constexpr (!Config::kIsCausal) return 0;
    const i64 last_key = i64{work.first_key} + group_row0() + kWarpGroupRows - 1;
    return uniform(static_cast<int>(
        maximum(last_key + seq_q<Config>(params) - seq_k<Config>(params), i64{0})));
  }

  // REQUIRES: the item sees some key of the block.
  //
  // kHasWindow: `limit` is the item's first query.
  LSSAR_DEVICE KeyMask mask_of(const Item& item, int unmasked) const {
    if constexpr (Config::kHasWindow) return {item.first_query, item.first_query < unmasked};
    const int limit = group_row0() + kWarpGroupRows - 1 - (unmasked - item.first_query);
    return {limit, limit < warp_row0() + kWarpRows - 1};
  }

  // Whether tiles that hide keys have code of their own, so that other tiles need not test for it.
  // Where dS' waits for its scale, that would take one register more than there are at d = 128.
  static constexpr bool kMasksApart = (Config::kIsCausal || Config::kHasWindow) && kRoundsAtOnce;

  // The evaluator of a tile. It is the same for the whole warp group, whose products start
  // together. Masks and residuals need the full one.
  LSSAR_DEVICE Evaluator choose_evaluator(const Item& item, int unmasked, u32 demand) const {
    if constexpr (Config::kNumEvaluators == 1) return kFullSoftplus;
    if ((Config::kIsCausal || Config::kHasWindow) && !kMasksApart && item.first_query < unmasked)
      return kFullSoftplus;
    if (!Config::kIsCausal && !Config::kHasWindow && Config::kSumsDq && has_residual(item))
      return kFullSoftplus;
    return evaluator_for(demand);
  }

  LSSAR_DEVICE bool has_residual(const Item& item) const {
    if constexpr (Config::kHasWindow) return this->has_residual_in_window(item);
    return num_grad_parts<Config>(num_visible_keys<Config>(params, item.first_query)) > 1;
  }

  // Products -> M, rounded, and dS', of 16 queries. NOTE: the products of 16 queries start before
  // the next 16 are weighed. Weighing all queries at once took more registers than there are.
  //
  // With kRoundsAtOnce dS' is rounded too.
  // Not formatted: lines break as in emitted sources.
  // clang-format off
  template <bool kWithDv, bool kWithDk, Evaluator kEvaluator>
  LSSAR_DEVICE void weigh(Operand& weights, Operand& grads, Scores& s, Scores& d, int stage,
                          const Work& work, const Item& item, const KeyMask& mask, int step) const {
    if constexpr (Config::kHasAlibi)
      weigh_keys<Config, kWithDk, kGradHasKeyNorm && !Scale::kIsNeeded, kWeightsKeepNan>(
          s, d, alibi_constants(stage, work, item), key_norm, warp_row0(),
          Config::kHasWindow ? KeyMask{0, false} : mask, 2 * step, 2 * step + 2);
    if constexpr (!Config::kHasAlibi)
      weigh_keys<Config, kWithDk, kGradHasKeyNorm && !Scale::kIsNeeded, kWeightsKeepNan, kEvaluator>(
          s, d, shared.constants(stage), key_norm, warp_row0(),
          Config::kHasWindow ? KeyMask{0, false} : mask, 2 * step, 2 * step + 2);
    if constexpr (Config::kHasWindow) {
      if (mask.is_needed)
        this->template hide_window<kWithDk>(s, d, work, mask.limit, 2 * step, 2 * step + 2);
    }
    if constexpr (kWithDk && kHidesPastEnd) this->hide_past_end(d, work, 2 * step, 2 * step + 2);
    if constexpr (kWithDv && !Config::kScalesWeights) Mma::round_step(weights.at[step], s, step);
    if constexpr (kWithDk && kRoundsAtOnce) Mma::round_step(grads.at[step], d, step);
  }

  // The largest gradient of the warp, or with kSumsDq of all consumers, because they round to one
  // tile.
  //
  // clang-format on
  LSSAR_DEVICE u32 largest_gradient(const Scores& d) {
    u32 largest = Scale::largest_bits(d, key_norm);
    if constexpr (Config::kSumsDq) {
      all_consumers_barrier<Shape::kNumConsumers>();  // the last tile's words have been read
      const int warp = warp_row0() / kWarpRows;
      if (lane_index() == 0) store_shared(shared.words() + warp * 4, largest);
      all_consumers_barrier<Shape::kNumConsumers>();
#pragma unroll
      for (int i = 0; i < Shape::kConsumerWarps; ++i) {
        u32 other;
        load_shared(other, shared.words() + i * 4);
        largest = other > largest ? other : largest;
      }
    }
    return largest;
  }

  // dS' is double-buffered; consecutive items alternate. Between work tiles, consumers wait for
  // each other's keys.
  static LSSAR_DEVICE int score_buffer(const Item& item) { return item.remaining & 1; }

  // Starts the product of dq, once all consumers have written their dS' to the buffer.
  LSSAR_DEVICE void start_query_grads(QueryGrads& dq, int buffer) {
    fence_async_shared();
    all_consumers_barrier<Shape::kNumConsumers>();
    wgmma_fence();
    start_multiply_left_transposed(dq, shared.scores(buffer), shared.keys(),
                                   this->query_grad_col0());
    wgmma_commit();
  }

  // Starts the products of the weights, and with kAddsAtOnce of dS', of these 16 queries.
  template <bool kWithDv, bool kAddsAtOnce>
  LSSAR_DEVICE void start_step(Sums& sums, Operand& weights, Operand& grads, int stage, int step) {
    if constexpr (kWithDv) pin_step(sums.dv, weights, step);
    if constexpr (kAddsAtOnce) pin_step(sums.dk, grads, step);
    wgmma_fence();
    const RowDescriptors from(shared.keys(), group_row0(), shared.queries(stage));
    if constexpr (kWithDv)
      start_multiply_step<typename Shape::GradTile>(sums.dv, weights, step, from,
                                                    Shape::kGradsOffset);
    if constexpr (kAddsAtOnce)
      start_multiply_step<typename Shape::QueryTile>(sums.dk, grads, step, from);
  }

  template <class Sum>
  static LSSAR_DEVICE void pin_step(Sum& sum, Operand& operand, int step) {
    pin(sum);
    pin_registers(operand.at[step]);
  }
  template <class Sum>
  static LSSAR_DEVICE void pin_sum(Sum& sum, Operand& operand) {
    pin(sum);
    pin_operand(operand);
  }

  // Adds a tile's rounded dS' from the buffer to dq, and with kWithDk to dk, whose product runs
  // while dq is written. Ends all products.
  template <bool kWithDk>
  LSSAR_DEVICE void add_gradients(Sums& sums, Operand& grads, int stage, const Work& work,
                                  const Item& item, int buffer) {
    QueryGrads dq;  // NOTE: of this tile only, or its registers would be taken all the time
    start_query_grads(dq, buffer);
    if constexpr (kWithDk) {
      pin(sums.dk);
      pin_operand(grads);
      wgmma_fence();
      start_multiply<Element>(sums.dk, grads, shared.queries(stage));
      wgmma_commit();
    }
    finish<kWithDk ? 1 : 0>(dq);
    this->add_query_grads(dq, work, item, sums.scale.inverse());
    if constexpr (kWithDk) {
      wgmma_wait<0>();
      pin_sum(sums.dk, grads);
    }
  }

  // Adds to dq what rounding dS' dropped. It computes dS' again, because keeping it would take
  // registers in every tile.
  LSSAR_DEVICE void add_residual(Sums& sums, const Work& work, const Item& item,
                                 const KeyMask& mask) {
    const int stage = cursor.stage;
    Scores s, d;
    start_scores<true>(s, d);
    finish_scores<true>(s, d);
    Operand weights, grads;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      weigh<false, true, kFullSoftplus>(weights, grads, s, d, stage, work, item, mask, step);
    if constexpr (!kRoundsAtOnce) round_gradients(sums, grads, d);
    Mma::subtract(d, grads);
    Mma::round(grads, d);
    // The next item writes this buffer; hence the barrier below.
    const int buffer = score_buffer(item) ^ 1;
    store_operand(shared.scores(buffer), warp_row0(), grads);
    add_gradients<false>(sums, grads, stage, work, item, buffer);
    all_consumers_barrier<Shape::kNumConsumers>();
  }

  LSSAR_DEVICE void round_gradients(Sums& sums, Operand& grads, Scores& d) {
    if constexpr (Scale::kIsNeeded) sums.scale.apply(largest_gradient(d), d, key_norm, sums.dk);
    Mma::round(grads, d);
  }

  // Starts the product of a whole tile's operand.
  template <class Sum, class Tile>
  static LSSAR_DEVICE void start_product(Sum& sum, Operand& operand, Tile tile) {
    pin_sum(sum, operand);
    wgmma_fence();
    start_multiply<Element>(sum, operand, tile);
    wgmma_commit();
  }

  // Scales and rounds a tile's weights, and starts their product.
  LSSAR_DEVICE void start_scaled_weights(Sums& sums, Operand& weights, Scores& s, int stage,
                                         const Work& work) const {
    this->hide_past_end(s, work, 0, kQueryMmaTiles);
    sums.weight_scale.apply(Scale::largest_bits(s), s, sums.dv);
    Mma::round(weights, s);
    start_product(sums.dv, weights, shared.grads(stage));
  }

  // Adds a tile's part to the sums, from its products s and d. kIsMasked: some of its queries may
  // be before `unmasked`, see first_unmasked.
  template <bool kWithDv, bool kWithDk, Evaluator kEvaluator, bool kIsMasked = false>
  LSSAR_DEVICE void add_tile(Sums& sums, Scores& s, Scores& d, const Work& work, const Item& item,
                             int unmasked = 0) {
    const int stage = cursor.stage;
    Operand weights, grads;
    const KeyMask mask = kIsMasked ? mask_of(item, unmasked) : KeyMask{0, false};
    constexpr bool kAddsAtOnce = kWithDk && kRoundsAtOnce;
    constexpr bool kStoresAtOnce = kAddsAtOnce && Config::kSumsDq;
    constexpr bool kAddsWeightsAtOnce = kWithDv && !Config::kScalesWeights;
    const int buffer = score_buffer(item);
    u32 stored = 0;
    if constexpr (kStoresAtOnce) stored = operand_address(shared.scores(buffer), warp_row0());
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      weigh<kWithDv, kWithDk, kEvaluator>(weights, grads, s, d, stage, work, item, mask, step);
      // Stored before its product starts: from then on its registers belong to the product.
      if constexpr (kStoresAtOnce)
        store_step<typename Shape::ScoreTile>(stored, grads.at[step], step);
      if constexpr (kAddsWeightsAtOnce || kAddsAtOnce)
        start_step<kAddsWeightsAtOnce, kAddsAtOnce>(sums, weights, grads, stage, step);
    }
    // If dS' was stored at once, they are in one group with the product of dq.
    if constexpr ((kAddsWeightsAtOnce || kAddsAtOnce) && !kStoresAtOnce) wgmma_commit();
    if constexpr (kWithDv && Config::kScalesWeights)
      start_scaled_weights(sums, weights, s, stage, work);
    if constexpr (kWithDk && !kRoundsAtOnce) {
      round_gradients(sums, grads, d);
      if constexpr (Config::kSumsDq) {
        store_operand(shared.scores(buffer), warp_row0(), grads);
      } else {
        start_product(sums.dk, grads, shared.queries(stage));
      }
    }
    if constexpr (kWithDk && Config::kSumsDq) {
      add_gradients<!kRoundsAtOnce>(sums, grads, stage, work, item, buffer);
    } else {
      wgmma_wait<0>();
    }
    if constexpr (kAddsAtOnce || (kWithDk && !Config::kSumsDq)) pin_sum(sums.dk, grads);
    if constexpr (kWithDv) pin_sum(sums.dv, weights);
    // A causal query that sees at most three keys does not see all keys of a tile.
    constexpr bool kMayBeFirst = Config::kHasWindow ? kIsMasked : kIsMasked || !Config::kIsCausal;
    if constexpr (kEvaluator == kFullSoftplus && kMayBeFirst && kWithDk && Config::kSumsDq) {
      if (has_residual(item)) add_residual(sums, work, item, mask);
    }
  }

  template <bool kWithDv, bool kWithDk>
  LSSAR_DEVICE void sweep(Sums& sums, const Work& work) {
    typename Select<Config::kHasWindow, int, const int>::Type unmasked = first_unmasked(work);
#pragma unroll 1
    for (Item item = Item(params, work).as_uniform(); item.is_valid(); item.advance(params, work)) {
      if constexpr (Config::kHasWindow)
        unmasked = item.first_query + (this->hides_keys(work, item, group_row0()) ? 1 : 0);
      Scores s, d;
      wait_stage();
      if constexpr (Config::kHasLengths) this->clear_queries(item, cursor.stage);
      start_scores<kWithDk>(s, d);
      const StageScale scale = wait_scaled();
      const Evaluator evaluator = choose_evaluator(item, unmasked, scale.demand);
      finish_scores<kWithDk>(s, d);
      if (kWithDk && kScalesAhead<Config> && scale.ratio != 1.0f)
        Scale::multiply(sums.dk, scale.ratio);
      if (kMasksApart && item.first_query < unmasked) {
        add_tile<kWithDv, kWithDk, kFullSoftplus, true>(sums, s, d, work, item, unmasked);
      } else if (Config::kNumEvaluators > 2 && evaluator == kLinearSoftplus) {
        add_tile<kWithDv, kWithDk, kLinearSoftplus>(sums, s, d, work, item);
      } else if (Config::kNumEvaluators > 1 && evaluator == kShortSoftplus) {
        add_tile<kWithDv, kWithDk, kShortSoftplus>(sums, s, d, work, item);
      } else if (Config::kHasWindow && !kMasksApart) {
        add_tile<kWithDv, kWithDk, kFullSoftplus, true>(sums, s, d, work, item, unmasked);
      } else {
        add_tile<kWithDv, kWithDk, kFullSoftplus, Config::kIsCausal && !kMasksApart>(
            sums, s, d, work, item, unmasked);
      }
      release_stage();
      // Waits until the sums are visible. The stage need not wait for that, so it is released
      // before.
      if constexpr (kWithDk && Config::kOrderedDq) end_turn(this->turn(work, item));
    }
  }

  LSSAR_DEVICE void process(Work work) {
    this->load_key_norms(work);
    const RingBarriers<1> owned = shared.owned_ring();
    mbarrier_wait(owned.full(0), owned_cursor.parity);
    owned_cursor.advance();
    if constexpr (Config::kHasWindow || Config::kHasLengths) this->clear_unseen(work);
    if constexpr (kScalesAhead<Config>) this->tell_value_norm();
    Sums sums;
    sums.dv.clear();
    if constexpr (Config::kSplitDkdv) {
      sweep<true, false>(sums, work);
      work.renew();
      this->write_values(sums.dv, sums.weight_scale.inverse(), work);
      sums.dk.clear();
      sweep<false, true>(sums, work);
      work.renew();
    } else {
      sums.dk.clear();
      sweep<true, true>(sums, work);
      if constexpr (!kWeightsKeepNan) take_nan(sums.dv, sums.dk);
      work.renew();
      this->write_values(sums.dv, sums.weight_scale.inverse(), work);
    }
    if constexpr (kScalesAhead<Config>) sums.scale.factor = shared.scales().factor();
    this->template write_keys<kGradHasKeyNorm>(sums.dk, sums.scale.inverse(), work);
    fence_async_shared();  // the key tile was read before TMA overwrites it
    consumer_barrier(this->group);
    if (warp_group_thread() == 0) mbarrier_arrive(owned.empty(0));
  }

  LSSAR_DEVICE void run(u32 ticket) {
    ping_pong.begin();
    for_each_dkdv_work<Config>(params, ticket,
                               [this](u32 index) { process(Work(params, index).as_uniform()); });
    if constexpr (Config::kSumsByTma) {
      if (lane_index() == 0) bulk_wait_read<0>();  // shared memory ends with the block
    }
  }
};

template <class Config>
LSSAR_DEVICE void hopper_backward_dkdv(const TmaParams& tma) {
  using Shape = HopperDkdvShape<Config>;
  const DkdvShared<Config> shared{swizzled_shared_address()};
  if (thread_index() == 0) {
    prefetch_maps<kNumDkdvMaps<Config>>(tma);
    shared.ring().init(Shape::kConsumerWarps);
    shared.owned_ring().init(Shape::kNumConsumers + (kScalesAhead<Config> ? 1 : 0));
    if constexpr (kScalesAhead<Config>) shared.scales().init(Shape::kConsumerWarps);
    fence_mbarrier_init();
  }
  u32 ticket = 0;
  if constexpr (Config::kOrderedDq && !Config::kHasLengths) {
    ticket = DqTurns<Config>::take_ticket(tma.attention, shared.ticket());
  } else {
    block_barrier();
  }
  run_roles<Config::kDkdvProducerRegisters, Config::kDkdvConsumerRegisters>(
      [&] { DkdvProducer<Config>(tma, shared).run(ticket); },
      [&](int group) { DkdvConsumer<Config>(tma, shared, group).run(ticket); },
      [&] {
        if constexpr (kScalesAhead<Config>) DkdvScaler<Config>(tma, shared).run();
      });
}

}  // namespace lssar_device
