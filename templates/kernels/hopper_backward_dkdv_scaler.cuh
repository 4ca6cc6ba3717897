// The warp of the Hopper dk/dv kernel that scales row constants (kScalesAhead). See
// hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_work.cuh"
#include "templates/kernels/tma_sequences.cuh"
#include "templates/ptx/assembler.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/scale_ahead.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

// Runs in one warp. With kScalesAhead it multiplies each stage's row constants by the scale of dS',
// so that dS' comes out scaled, and signals when they are ready. The sweep for dv needs no scale.
template <class Config>
struct DkdvScaler {
  using Shape = HopperDkdvShape<Config>;
  using Scale = GradScale<Config>;

  const AttentionParams& params;
  DkdvShared<Config> shared;
  RingCursor<Shape::kStages> cursor;
  RingCursor<1> owned_cursor;
  // kHasLengths: the first query of the next stage and of a head, and the one after its last.
  int query_of_stage, query_of_head, queries_of_head;
  int head_of_stage;

  LSSAR_DEVICE DkdvScaler(const TmaParams& tma, DkdvShared<Config> s)
      : params(Config::kHasLengths ? tma_sequence.attention : tma.attention), shared(s) {}

  LSSAR_DEVICE void wait_stage() const {
    mbarrier_wait(shared.ring().full(cursor.stage), cursor.parity);
  }
  LSSAR_DEVICE void place_queries(const DkdvWork<Config>& work) {
    query_of_stage = query_of_head = work.first_query;
    head_of_stage = work.head * (params.heads / params.kv_heads);
    queries_of_head = Config::kHasWindow ? work.end_query : static_cast<int>(seq_q<Config>(params));
  }
  // Loads the stage's constants if the sequence ends within it. Steps are as in DkdvItem.
  LSSAR_DEVICE void load_last_constants() {
    if (query_of_stage + Shape::kBlockCols > seq_q<Config>(params)) {
      load_constants_to_end<Config, kWarpThreads>(shared.constants(cursor.stage), params,
                                                  head_of_stage, query_of_stage, lane_index());
      warp_barrier();
    }
    query_of_stage += Shape::kBlockCols;
    if (query_of_stage < queries_of_head) return;
    query_of_stage = query_of_head;
    ++head_of_stage;
  }
  LSSAR_DEVICE void arrive(u32 barrier) const {
    fence_async_shared();  // before TMA overwrites what was read or written
    warp_barrier();
    if (lane_index() == 0) mbarrier_arrive(barrier);
  }

  // The largest |v_j| of the work tile's keys, from the consumers' words.
  LSSAR_DEVICE float value_norm() {
    mbarrier_wait(shared.scales().norms(), owned_cursor.parity);
    owned_cursor.advance();
    u32 norm = 0;  // the bits order like the number
    if (lane_index() < Shape::kConsumerWarps) load_shared(norm, shared.words() + lane_index() * 4);
    const u32 largest = warp_maximum(norm);
    arrive(shared.owned_ring().empty(0));  // the words may be overwritten for the next keys
    return float_from_bits(largest);
  }

  LSSAR_DEVICE void scale_stage(Scale& scale, float norm) {
    pin_register(shared.base);  // so that addresses derived from it take no registers
    const auto constants = shared.constants(cursor.stage);
    wait_stage();
    if constexpr (Config::kHasLengths) load_last_constants();
    u32 demand;
    const u32 bound = largest_bound(constants, norm, demand);
    const float ratio = scale.template make_room<Scale::kTargetOfBound>(bound);
    store({ratio, demand});  // stored first, because scaling the rows needs the registers
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
    if constexpr (Config::kHasLengths) place_queries(work);
    if constexpr (Config::kSplitDkdv) {
      for (int i = 0; i < num_items; ++i) {
        wait_stage();
        if constexpr (Config::kHasLengths) load_last_constants();
        store({1.0f, warp_maximum(shared.constants(cursor.stage).largest_demand())});
        finish_stage();
      }
    }
    if constexpr (Config::kHasLengths) place_queries(work);
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
