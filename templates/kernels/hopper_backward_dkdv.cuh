// Backward for keys and values, for sm_90a; with kSumsDq also for queries.
//
//   dv_j = sum_i M_ij g_i
//   dk_j = a_j - k̂_j (k̂_j a_j),   a_j = sum_i dS'_ij q_i / |k_j|
//   kSumsDq: dq sums += dS'_ij k_j / |k_j|, as blocks come, or with kOrderedDq in the order of keys
//
// A work tile is BLOCK_N keys of one kv head, 64 to a consumer warp group, and all queries of every
// head that reads them, BLOCK_Q at a time. Scores are computed transposed (keys as rows), so that M
// and dS' feed dv and dk from registers. Warp group 0 is the producer. kSplitDkdv: one sweep over
// the queries for dv, a second one for dk.
//
// Products start 16 queries at a time, as soon as those are weighed, and run beside the arithmetic
// of the next 16: those of the weights, and of dS' where it needs no scale of the whole tile
// (bf16). (The next tile's scores are not begun early: at d = 128 there are no registers for them.)
// kPingPong: consumers take turns in starting the products of scores.
//
// kSumsDq: dS' of all consumers goes through shared memory (two tiles in turns, so that one
// barrier per tile is enough); each consumer makes a share of the columns of dq.
//
// kSumsByTma: dq goes on through shared memory, from where TMA adds it to the sums.
//
// Shared memory: key tile, value tile, dS' tiles, with kSumsByTma parts of dq, kDkdvStages slots of
// a query tile, an output gradient tile and row constants, a word per consumer warp, barriers, the
// block's ticket.
// Named barriers: tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_producer.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/dq_turns.cuh"
#include "templates/tile/grad_q_sum.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/project.cuh"
#include "templates/tile/roles.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// A warp group.
template <class Config>
struct DkdvConsumer {
  using Shape = HopperDkdvShape<Config>;
  using Element = typename Config::Element;
  using Mma = TileMma16<Element>;
  static constexpr int kQueryTiles = Shape::BLOCK_Q / kTileCols;
  static constexpr int kSteps = kQueryTiles / 2;  // 16 queries: the depth of a product
  using Scores = Fragment<kQueryTiles>;
  using Operand = typename Mma::template Operand<kQueryTiles>;
  using KeyGrads = Fragment<Config::kHeadDim / kTileCols>;
  using ValueGrads = Fragment<Config::kHeadDimV / kTileCols>;
  using QueryGrads = Fragment<Shape::kQueryGradCols / kTileCols>;
  using Work = DkdvWork<Config>;
  using Item = DkdvItem<Config>;
  using Scale = GradScale<Element>;
  // As in the portable kernel: dS' / |k_j| where a sum over keys, or a scale shared by keys, needs
  // it; with a scale the norm is multiplied in together with that.
  static constexpr bool kGradHasKeyNorm = Config::kSumsDq || Scale::kIsNeeded;
  // Else dv takes the NaN of rows that saw one from dk.
  static constexpr bool kWeightsHaveRange = Config::kSplitDkdv;

  const AttentionParams& p;
  const TensorMap& sum_map;
  DkdvShared<Config> shared;
  int group;  // of the consumers
  ConsumerTurns<Config::kPingPong, Shape::kNumConsumers> turns;
  RingCursor<Shape::kSlots> cursor;  // slot in use, or to wait for
  RingCursor<1> owned_cursor;
  float key_norm[2];

  LSSAR_DEVICE DkdvConsumer(const TmaParams& params, DkdvShared<Config> s, int g)
      : p(params.attention), sum_map(params.maps[kDkdvSumMap]), shared(s), group(g), turns{g} {}

  // First of the consumer's, and of the warp's, rows in the block.
  LSSAR_DEVICE int group_row0() const { return group * kWarpGroupRows; }
  LSSAR_DEVICE int warp_row0() const {
    return group_row0() + warp_group_thread() / kWarpThreads * kWarpRows;
  }

  // The lane's row `half` among the keys. Unsigned: a sign to extend would be one more register.
  LSSAR_DEVICE u32 key_row(const Work& work, int half) const {
    return static_cast<u32>(work.first_key + warp_row0() + fragment_row(half));
  }

  // Sums of one work tile.
  struct Sums {
    ValueGrads dv;
    KeyGrads dk;
    Scale scale;
  };

  LSSAR_DEVICE void release_slot() {
    fence_async_shared();  // row constants were read before TMA overwrites them
    warp_barrier();
    if (lane_index() == 0) mbarrier_arrive(shared.ring().empty(cursor.slot));
    cursor.advance();
  }

  LSSAR_DEVICE void wait_slot() const {
    mbarrier_wait(shared.ring().full(cursor.slot), cursor.parity);
  }

  // s = k qᵀ and, for dk, d = v gᵀ of the tile in the cursor's slot.
  template <bool kWithDk>
  LSSAR_DEVICE void multiply_scores(Scores& s, Scores& d) const {
    const int slot = cursor.slot;
    turns.take();
    wgmma_fence();
    const DescriptorWords words(shared.queries(slot).base);
    start_multiply_transposed(s, shared.keys(), group_row0(), shared.queries(slot), words);
    if constexpr (kWithDk)
      start_multiply_transposed(d, shared.values(), group_row0(), shared.grads(slot), words);
    wgmma_commit();
    turns.pass();
    finish<0>(s);
    if constexpr (kWithDk) pin(d);
  }

  // Key row - query column of the tile at `first_query` is visible up to this.
  LSSAR_DEVICE int diagonal(const Work& work, int first_query) const {
    const i64 limit = seq_k<Config>(p) - seq_q<Config>(p) - work.first_key + first_query;
    const i64 far = i64{Shape::BLOCK_N + Shape::BLOCK_Q};
    return static_cast<int>(minimum(maximum(limit, -far), far));
  }

  // Whether dS' is rounded as soon as it is there, with no scale to find first.
  static constexpr bool kRoundsAtOnce = !Scale::kIsNeeded;

  LSSAR_DEVICE KeyMask mask_of(const Work& work, const Item& item) const {
    const int limit = diagonal(work, item.first_query);
    return {limit, Config::kIsCausal && limit < warp_row0() + kWarpRows - 1};
  }

  // Products -> M, rounded, and dS', rounded with kRoundsAtOnce, of 16 queries. NOTE: their
  // products start before the next ones are weighed: all queries at once took more registers than
  // there are.
  template <bool kWithDv, bool kWithDk>
  LSSAR_DEVICE void weigh(Operand& weights, Operand& grads, Scores& s, Scores& d, int slot,
                          const KeyMask& mask, int step) const {
    weigh_keys<Config, kWithDk, kGradHasKeyNorm && !Scale::kIsNeeded, kWeightsHaveRange>(
        s, d, shared.constants(slot), key_norm, warp_row0(), mask, 2 * step, 2 * step + 2);
    if constexpr (kWithDv) Mma::round_step(weights.at[step], s, step);
    if constexpr (kWithDk && kRoundsAtOnce) Mma::round_step(grads.at[step], d, step);
  }

  // The largest gradient of the warp, or of all consumers where they round to one tile.
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

  // Of the two in shared memory, the item's buffer for dS': the item before had the other. Work
  // tiles have a wait for one another's keys in between.
  static LSSAR_DEVICE int score_buffer(const Item& item) { return item.remaining & 1; }

  LSSAR_DEVICE int query_grad_col0() const { return group == 0 ? 0 : Shape::kSecondCol; }

  // dq's product, once all consumers have written their dS' to the buffer.
  LSSAR_DEVICE void start_query_grads(QueryGrads& dq, int buffer) {
    fence_async_shared();
    all_consumers_barrier<Shape::kNumConsumers>();
    wgmma_fence();
    start_multiply_left_transposed(dq, shared.scores(buffer), shared.keys(), query_grad_col0());
    wgmma_commit();
  }

  // The counter of the warp's part of dq of the item's queries.
  LSSAR_DEVICE u32* turn(const Work& work, const Item& item) const {
    return DqTurns<Config>::of_part(p, i64{work.batch} * p.heads + item.head, item.first_query,
                                    warp_row0() / kWarpRows);
  }

  // The first column of dq that is not the other consumer's.
  LSSAR_DEVICE int first_own_col() const { return group == 0 ? 0 : Shape::kHalfDim; }
  // The first of the warp's rows of dq in the tile.
  LSSAR_DEVICE int query_grad_row0() const {
    return warp_group_thread() / kWarpThreads * kWarpRows;
  }

  // The consumer's share of dq of the item's queries, to global memory.
  LSSAR_DEVICE void add_query_grads(const QueryGrads& dq, const Work& work, const Item& item,
                                    float inverse_scale) const {
    if constexpr (Config::kSumsByTma) {
      stage_query_grads(dq, inverse_scale);
      if (lane_index() == 0) add_staged_grads(work, item);
      return;
    }
    const i64 slice = i64{work.batch} * p.heads + item.head;
    const u32 query = static_cast<u32>(item.first_query + query_grad_row0() + fragment_row(0));
    float* first = GradQSum<Config>::at(p, slice, query, query_grad_col0() + fragment_col(0));
    i64 stride = GradQSum<Config>::group_stride(p);
    pin_register(stride);  // one addition from group to group
    if constexpr (Config::kOrderedDq) begin_turn(turn(work, item), static_cast<u32>(work.tile));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      constexpr int kApart = kWarpRows / 2;
      if (query + half * kApart >= seq_q<Config>(p)) continue;
      float* out = first + half * kApart * GradQSum<Config>::kCols;
#pragma unroll
      for (int n = 0; n < QueryGrads::kNumTiles; ++n, out += stride) {
        const int col = query_grad_col0() + fragment_col(n);
        if (Shape::kSharesAreHalves || (col >= first_own_col() && col < Config::kHeadDim))
          add_global_pair(out, dq.at[n][2 * half] * inverse_scale,
                          dq.at[n][2 * half + 1] * inverse_scale);
      }
    }
  }

  // The warp's part of dq to shared memory, for TMA.
  LSSAR_DEVICE void stage_query_grads(const QueryGrads& dq, float inverse_scale) const {
    constexpr int kRowBytes = kTileCols * 4;
    if (lane_index() == 0) bulk_wait_read<0>();  // the last part
    warp_barrier();
    const u32 first =
        shared.staging(warp_row0() / kWarpRows) + fragment_row(0) * kRowBytes + fragment_col(0) * 4;
#pragma unroll
    for (int n = 0; n < QueryGrads::kNumTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_shared(first + (n * kWarpRows + half * kWarpRows / 2) * kRowBytes,
                     dq.at[n][2 * half] * inverse_scale, dq.at[n][2 * half + 1] * inverse_scale);
    fence_async_shared();
    warp_barrier();
  }

  // One lane. Rows and columns that dq does not have are left out.
  LSSAR_DEVICE void add_staged_grads(const Work& work, const Item& item) const {
    const u32 staged = shared.staging(warp_row0() / kWarpRows);
#pragma unroll
    for (int box = 0; box < Shape::kSumBoxes; ++box) {
      const int col = query_grad_col0() + box * Shape::kSumCols;
      if (Shape::kSharesAreHalves || (col >= first_own_col() && col < Config::kHeadDim))
        tma_reduce_add(sum_map, staged + box * Shape::kSumBoxBytes,
                       (item.first_query + query_grad_row0()) * GradQSum<Config>::kCols,
                       col / GradQSum<Config>::kCols, item.head, work.batch);
    }
    bulk_commit();
  }

  // The products of the weights, and with kAddsAtOnce of dS', of these 16 queries.
  template <bool kWithDv, bool kAddsAtOnce>
  LSSAR_DEVICE void start_step(Sums& sums, Operand& weights, Operand& grads, int slot, int step) {
    if constexpr (kWithDv) pin_step(sums.dv, weights, step);
    if constexpr (kAddsAtOnce) pin_step(sums.dk, grads, step);
    wgmma_fence();
    if constexpr (kWithDv)
      start_multiply<Element>(sums.dv, weights, shared.grads(slot), step, step + 1);
    if constexpr (kAddsAtOnce)
      start_multiply<Element>(sums.dk, grads, shared.queries(slot), step, step + 1);
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

  // dS' of a tile, rounded, with kSumsDq from the buffer to dq, and with kWithDk to dk, whose
  // product runs while dq leaves. Ends all products.
  template <bool kWithDk>
  LSSAR_DEVICE void add_gradients(Sums& sums, Operand& grads, int slot, const Work& work,
                                  const Item& item, int buffer) {
    QueryGrads dq;  // NOTE: of this tile only; were it kept, its registers would be taken all along
    if constexpr (Config::kSumsDq) start_query_grads(dq, buffer);
    if constexpr (kWithDk) {
      pin(sums.dk);
      pin_operand(grads);
      wgmma_fence();
      start_multiply<Element>(sums.dk, grads, shared.queries(slot));
      wgmma_commit();
    }
    if constexpr (Config::kSumsDq) {
      finish<kWithDk ? 1 : 0>(dq);
      add_query_grads(dq, work, item, sums.scale.inverse());
    }
    if constexpr (kWithDk) {
      wgmma_wait<0>();
      pin_sum(sums.dk, grads);
    }
  }

  // What rounding dS' dropped, to dq. Computed anew: kept from the first time, it would take
  // registers in every tile.
  LSSAR_DEVICE void add_residual(Sums& sums, const Work& work, const Item& item,
                                 const KeyMask& mask) {
    const int slot = cursor.slot;
    Scores s, d;
    multiply_scores<true>(s, d);
    Operand weights, grads;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      weigh<false, true>(weights, grads, s, d, slot, mask, step);
    if constexpr (!kRoundsAtOnce) round_gradients(sums, grads, d);
    Mma::subtract(d, grads);
    Mma::round(grads, d);
    // In the buffer that the next item writes: hence the barrier.
    const int buffer = score_buffer(item) ^ 1;
    store_operand(shared.scores(buffer), warp_row0(), grads);
    add_gradients<false>(sums, grads, slot, work, item, buffer);
    all_consumers_barrier<Shape::kNumConsumers>();
  }

  LSSAR_DEVICE void round_gradients(Sums& sums, Operand& grads, Scores& d) {
    if constexpr (Scale::kIsNeeded) sums.scale.apply(largest_gradient(d), d, key_norm, sums.dk);
    Mma::round(grads, d);
  }

  template <bool kWithDv, bool kWithDk>
  LSSAR_DEVICE void sweep(Sums& sums, const Work& work) {
#pragma unroll 1
    for (Item item = Item(p, work).as_uniform(); item.is_valid(); item.advance(p, work)) {
      Scores s, d;
      wait_slot();
      multiply_scores<kWithDk>(s, d);
      const int slot = cursor.slot;
      Operand weights, grads;
      const KeyMask mask = mask_of(work, item);
      constexpr bool kAddsAtOnce = kWithDk && kRoundsAtOnce;
      constexpr bool kStoresAtOnce = kAddsAtOnce && Config::kSumsDq;
      const int buffer = score_buffer(item);
      u32 stored = 0;
      if constexpr (kStoresAtOnce) stored = operand_address(shared.scores(buffer), warp_row0());
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        weigh<kWithDv, kWithDk>(weights, grads, s, d, slot, mask, step);
        // Before its product starts: from then on its registers are the product's.
        if constexpr (kStoresAtOnce)
          store_step<typename Shape::ScoreTile>(stored, grads.at[step], step);
        if constexpr (kWithDv || kAddsAtOnce)
          start_step<kWithDv, kAddsAtOnce>(sums, weights, grads, slot, step);
      }
      // With kStoresAtOnce they are of one group with dq's.
      if constexpr ((kWithDv || kAddsAtOnce) && !kStoresAtOnce) wgmma_commit();
      if constexpr (kWithDk && !kRoundsAtOnce) {
        round_gradients(sums, grads, d);
        if constexpr (Config::kSumsDq) store_operand(shared.scores(buffer), warp_row0(), grads);
      }
      if constexpr (kWithDk && (Config::kSumsDq || !kRoundsAtOnce)) {
        add_gradients<!kRoundsAtOnce>(sums, grads, slot, work, item, buffer);
      } else {
        wgmma_wait<0>();
      }
      if constexpr (kAddsAtOnce) pin_sum(sums.dk, grads);
      if constexpr (kWithDv) pin_sum(sums.dv, weights);
      if constexpr (kWithDk && Config::kSumsDq) {
        if (num_grad_parts<Config>(num_visible_keys<Config>(p, item.first_query)) > 1)
          add_residual(sums, work, item, mask);
      }
      release_slot();
      // Waits until what was added is visible, which the slot need not.
      if constexpr (kWithDk && Config::kOrderedDq) end_turn(turn(work, item));
    }
  }

  LSSAR_DEVICE void write_values(ValueGrads& dv, const Work& work) const {
    Scale::multiply(dv, 1.0f / kWeightRange<Element>);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 key = key_row(work, half);
      if (key < seq_k<Config>(p))
        write_row<Config, Config::kHeadDimV>(
            row_pointer<Element>(p.grad_v, work.batch, work.head, key), dv, half);
    }
  }

  LSSAR_DEVICE void write_keys(KeyGrads& dk, float inverse_scale, const Work& work) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = kGradHasKeyNorm ? inverse_scale : inverse_scale * key_norm[half];
#pragma unroll
      for (int n = 0; n < KeyGrads::kNumTiles; ++n) {
        dk.at[n][2 * half] *= factor;
        dk.at[n][2 * half + 1] *= factor;
      }
      project_row<Mma>(dk, half, shared.keys(), warp_row0(), key_norm[half]);
      const u32 key = key_row(work, half);
      if (key < seq_k<Config>(p))
        write_row<Config, Config::kHeadDim>(
            row_pointer<Element>(p.grad_k, work.batch, work.head, key), dk, half);
    }
  }

  LSSAR_DEVICE void load_key_norms(const Work& work) {
    const i64 slice = i64{work.batch} * p.kv_heads + work.head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 key = key_row(work, half);
      key_norm[half] =
          key < seq_k<Config>(p) ? p.k_inv_norm[slice * key_norm_pitch<Config>(p) + key] : 0.0f;
    }
  }

  LSSAR_DEVICE void process(Work work) {
    load_key_norms(work);
    const RingBarriers<1> owned = shared.owned_ring();
    mbarrier_wait(owned.full(0), owned_cursor.parity);
    owned_cursor.advance();
    Sums sums;
    sums.dv.clear();
    if constexpr (Config::kSplitDkdv) {
      sweep<true, false>(sums, work);
      work.renew();
      write_values(sums.dv, work);
      sums.dk.clear();
      sweep<false, true>(sums, work);
      work.renew();
    } else {
      sums.dk.clear();
      sweep<true, true>(sums, work);
      if constexpr (!kWeightsHaveRange) take_nan(sums.dv, sums.dk);
      work.renew();
      write_values(sums.dv, work);
    }
    write_keys(sums.dk, sums.scale.inverse(), work);
    fence_async_shared();  // the key tile was read before TMA overwrites it
    consumer_barrier(group);
    if (warp_group_thread() == 0) mbarrier_arrive(owned.empty(0));
  }

  LSSAR_DEVICE void run(u32 ticket) {
    turns.begin();
    for_each_dkdv_work<Config>(p, ticket,
                               [this](u32 index) { process(Work(p, index).as_uniform()); });
    if constexpr (Config::kSumsByTma) {
      if (lane_index() == 0) bulk_wait_read<0>();  // shared memory ends with the block
    }
  }
};

template <class Config>
LSSAR_DEVICE void hopper_backward_dkdv(const TmaParams& params) {
  using Shape = HopperDkdvShape<Config>;
  const DkdvShared<Config> shared{swizzled_shared_address()};
  if (thread_index() == 0) {
    prefetch_maps<kNumDkdvMaps<Config>>(params);
    shared.ring().init(Shape::kConsumerWarps);
    shared.owned_ring().init(Shape::kNumConsumers);
    fence_mbarrier_init();
  }
  u32 ticket = 0;
  if constexpr (Config::kOrderedDq) {
    ticket = DqTurns<Config>::take_ticket(params.attention, shared.ticket());
  } else {
    block_barrier();
  }
  run_roles<Config::kDkdvProducerRegisters, Config::kDkdvConsumerRegisters>(
      [&] { DkdvProducer<Config>(params, shared).run(ticket); },
      [&](int group) { DkdvConsumer<Config>(params, shared, group).run(ticket); });
}

}  // namespace lssar_device
