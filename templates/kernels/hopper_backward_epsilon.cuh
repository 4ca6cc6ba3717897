// Computes epsilon of the backward's rows if no X was saved, for sm_90a. It runs after the row
// kernel, whose constants it completes, and before the kernels that read them.
//
// It is the dq kernel without its product (templates/kernels/hopper_backward_dq.cuh), with the same
// work tiles, shared memory, barriers and producer. A consumer's arithmetic overlaps only the
// products of other consumers (kPingPong), because a second pair of score tiles would take its
// registers.
#pragma once

#include "templates/kernels/hopper_backward_dq.cuh"
#include "templates/tile/epsilon_sum.cuh"

namespace lssar_device {

// Runs in a warp group.
template <class Config>
struct EpsilonConsumer : DqConsumer<Config> {
  using Shape = HopperDqShape<Config>;
  using Base = DqConsumer<Config>;

  LSSAR_DEVICE EpsilonConsumer(const AttentionParams& params, DqShared<Config> s, int g)
      : Base(params, s, g) {}

  LSSAR_DEVICE void add_keys(EpsilonSum<Config>& sum, KeyTiles<Config> num_tiles) {
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      typename Base::Scores s, d;
      if constexpr (Config::kHasWindow || Config::kHasLengths)
        this->clear_unseen(tile_at<Config>(num_tiles, tile));
      this->ping_pong.acquire();
      this->start_scores(s, d);
      this->ping_pong.release();
      this->template finish_scores<0>(s, d);
      const i64 first_key = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
      const bool needs_mask = Config::kHasWindow
                                  ? this->hides_keys(first_key)
                                  : first_key + Shape::kBlockCols > this->first_masked;
      const u32 norms = this->shared.norms(this->released.stage);
      if constexpr (Config::kHasAlibi) {
        sum.add(s, d, this->constants, norms,
                AlibiMask<Config>{{this->visible, first_key, needs_mask}, this->alibi});
      } else {
        sum.add(s, d, this->constants, norms, {this->visible, first_key, needs_mask});
      }
      this->release_stage();
    }
  }

  LSSAR_DEVICE void process(const DqWork<Config>& work) {
    this->place_rows(work);
    const RingBarriers<1> query_ring = this->shared.query_ring();
    mbarrier_wait(query_ring.full(0), this->query_cursor.parity);
    this->query_cursor.advance();
    if constexpr (Config::kHasLengths) this->clear_queries(work);
    EpsilonSum<Config> sum;
    sum.clear();
    add_keys(sum, work.num_tiles);
    // Only products have read the queries, and they have ended, so no fence is needed.
    if (lane_index() == 0) mbarrier_arrive(query_ring.empty(0));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = this->flat_row(work, work.first_row + this->warp_row0() + fragment_row(half));
      write_epsilon<Config>(sum, this->params, row, half, this->visible[half]);
    }
  }

  LSSAR_DEVICE void run() {
    this->ping_pong.begin();
    for_each_work_tile<Config::kIsPersistent>(
        DqWork<Config>::count(this->params),
        [this](u32 index) { process(DqWork<Config>(this->params, index)); });
  }
};

template <class Config>
LSSAR_DEVICE void hopper_backward_epsilon(const TmaParams& tma) {
  sweep_keys<Config, EpsilonConsumer<Config>>(tma);
}

}  // namespace lssar_device
