// Forward of LSSA and LSSAR for sm_90a: the two passes of forward.cuh with TMA, wgmma and warps
// that have a role.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// Warp group 0 is the producer: one lane loads query tiles, and key and value tiles in the order of
// their use into a ring of stages (tile/tma_ring.cuh). Each other warp group is a consumer and owns
// 64 of the kBlockRows queries, 16 to a warp. With kIsPersistent a block works on tile after tile
// of queries: dealt out in turns or, with kTakesTickets, taken by the producer when there is time
// (tile/tickets.cuh), which tells the consumers with the queries.
//
// kOverlap: the next product of keys is in flight beside this tile's arithmetic, in pass 2 together
// with the product of the last tile's weights and values.
// kQueriesInRegisters: a consumer's queries are the products' operand in registers, read once; the
// query tile is free for the next work tile at once.
// kPingPong: consumers take turns in starting products, so that one's arithmetic runs beside the
// other's products.
// kWeightsInShared: hopper_forward_sums.cuh.
// kStoresByTma: o goes through the query tile, which is the next work tile's only then.
// kCluster: blocks of consecutive query tiles of a head, which share the loads of keys and values
// (tile/tma_ring.cuh).
// kPackGqa: a consumer's rows are whole queries of all heads that share keys
// (tile/query_tiles.cuh). kStagger: a block takes so many neighbouring query tiles of a head in a
// row, each one's pass 1 beside pass 2 of the one before (hopper_forward_staggered.cuh), for which
// it has two query tiles in shared memory. 1: passes apart, as below. kSkipTiles: in pass 2 a warp
// whose tile has no score with a weight above 2^-24 does no arithmetic on it, and a consumer of
// such warps starts no product with its values.
//
// Shared memory: query tile; kForwardStages stages of a key or value tile; per stage the reciprocal
// key norms; barriers of the ring, and two of the query tile; with kTakesTickets, the number of the
// work tile. Named barriers: tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_forward_consumer.cuh"
#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/kernels/hopper_forward_staggered.cuh"
#include "templates/kernels/hopper_forward_sums.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/roles.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// One pass after the other. A warp group.
template <class Config>
struct PassesApart {
  using Consumer = ForwardConsumer<Config>;
  using Shape = typename Consumer::Shape;
  using Sums = typename Consumer::Sums;
  using Scores = typename Consumer::Scores;
  static constexpr bool kReleasesQueriesLast =
      !Config::kQueriesInRegisters && !Config::kStoresByTma;

  Consumer c;

  LSSAR_DEVICE void weigh(Scores& s, int tile) {
    c.finish_scores(s, c.rows);
    c.weigh(s, tile);
  }

  // A tile of pass 2 but the first: its scores, and what the weights of the tile before add up to,
  // if there are any (kHasWeights); else its values are given back unread.
  // NOTE: the order of stages is the producer's.
  template <bool kHasWeights>
  LSSAR_DEVICE void next_tile(Sums& sums, Scores& s, int query_stage, int tile) {
    constexpr int kInFlight = Config::kOverlap && kHasWeights ? 1 : 0;
    c.ping_pong.acquire();
    if constexpr (Config::kOverlap)
      c.template start_scores<typename Shape::KeyTile>(s, query_stage);
    const typename Shape::ValueTile values{c.next_stage()};
    if constexpr (kHasWeights) sums.start(values);
    if constexpr (!Config::kOverlap)
      c.template start_scores<typename Shape::KeyTile>(s, query_stage);
    c.ping_pong.release();
    finish<kInFlight>(s);
    if constexpr (Config::kOverlap) weigh(s, tile);
    if constexpr (kHasWeights) sums.finish_products();
    c.release_stage();
    if constexpr (!Config::kOverlap) weigh(s, tile);
  }

  LSSAR_DEVICE void pass_two(Sums& sums, int query_stage, int num_tiles) {
    if (num_tiles == 0) return;
    Scores s;
    c.ping_pong.acquire();
    c.template start_scores<typename Shape::KeyTile>(s, query_stage);
    c.ping_pong.release();
    finish<0>(s);
    weigh(s, 0);
    sums.round(s);
    // NOTE: all products of a tile end before the next branch: see start_score_tile.
#pragma unroll 1
    for (int tile = 1; tile < num_tiles; ++tile) {
      if (c.has_weights()) {
        next_tile<true>(sums, s, query_stage, tile);
      } else {
        next_tile<false>(sums, s, query_stage, tile);
      }
      sums.round(s);
    }
    const typename Shape::ValueTile values{c.next_stage()};
    if (c.has_weights()) {
      sums.start(values);
      sums.finish_products();
    }
    c.release_stage();
  }

  LSSAR_DEVICE void process(const ForwardWork<Config>& work, int stage) {
    c.rows.place_in(c.params, work, c.group);
    c.prepare_queries(c.rows, stage);
    c.pass_one(stage, work.score_tiles);
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Sums sums(c.shared, c.group);
      sums.clear();
      pass_two(sums, stage, work.tiles);
      if (kReleasesQueriesLast && dv_block == Shape::kNumDvBlocks - 1) c.release_queries(stage);
      c.write_output(sums, work, dv_block, stage);
    }
  }

  LSSAR_DEVICE void run() {
    c.for_each_chain([this](const ForwardChain<Config>& chain, int stage) {
      process(chain.work(c.params, 0), stage);
    });
  }
};

template <class Config>
LSSAR_DEVICE void hopper_forward(const TmaParams& tma) {
  using Shape = HopperForwardShape<Config>;
  const ForwardShared<Config> shared{swizzled_shared_address()};
  if (thread_index() == 0) {
    prefetch_maps<kNumForwardMaps<Config>>(tma);
    shared.ring().init(Shape::kReleases);
    shared.query_ring().init(Shape::kNumConsumers);
    fence_mbarrier_init();
  }
  if constexpr (Shape::kCluster > 1) {
    cluster_barrier();
  } else {
    block_barrier();
  }
  run_roles<Config::kForwardProducerRegisters, Config::kForwardConsumerRegisters>(
      [&] { ForwardProducer<Config>(tma, shared).run(); },
      [&](int group) {
        using Passes = typename Select<Shape::kIsStaggered, PassesStaggered<Config>,
                                       PassesApart<Config>>::Type;
        Passes{{tma, shared, group}}.run();
      });
  // No block ends while others' copies and releases may come to it.
  if constexpr (Shape::kCluster > 1) cluster_barrier();
}

}  // namespace lssar_device
