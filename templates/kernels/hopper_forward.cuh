// Forward of LSSA and LSSAR for sm_90a: the two passes of forward.cuh with TMA, wgmma and warps
// that have a role.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// Warp group 0 is the producer. One of its lanes loads the query tiles, and the key and value tiles
// in the order of their use into a ring of stages (tile/tma_ring.cuh). Every other warp group is a
// consumer and owns 64 of the kBlockRows queries, 16 to a warp.
//
// With kIsPersistent a block works on one query tile after another. They are dealt out round-robin
// or, with kTakesTickets, drawn by the producer (tile/tickets.cuh), which tells the consumers the
// number together with the queries.
//
// kOverlap: the next tile's products of scores run beside this tile's arithmetic; in pass 2 they
// run together with the product of the last tile's weights and values.
// kPingPong: consumers start products one after another, so that the arithmetic of one runs beside
// the products of the other.
// kSkipTiles: a warp whose tile has no score with a weight above 2^-24 does no arithmetic on it,
// and a consumer of such warps starts no product with its values.
//
// Each variation has a file of its own:
//   kStagger > 1         hopper_forward_staggered.cuh (1: hopper_forward_passes.cuh)
//   kQueriesInRegisters  hopper_forward_queries_in_registers.cuh
//   kWeightsInShared     hopper_forward_weights_in_shared.cuh
//   kStoresByTma         hopper_forward_output.cuh
//   kPackGqa             hopper_forward_packed.cuh
//   kCluster > 1         tile/cluster_tiles.cuh
//
// Shared memory: query tiles, two where passes are staggered; weights with kWeightsInShared;
// kForwardStages stages of a key or value tile; the reciprocal key norms of each stage; barriers of
// the ring and of the query tiles; the numbers of work tiles with kTakesTickets. Named barriers:
// tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_forward_passes.cuh"
#include "templates/kernels/hopper_forward_staggered.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/tile/cluster_tiles.cuh"
#include "templates/tile/roles.cuh"

namespace lssar_device {

template <class Config>
LSSAR_DEVICE void hopper_forward(const TmaParams& tma) {
  using Shape = HopperForwardShape<Config>;
  using Loads =
      typename Select<Shape::kIsStaggered, LoadsStaggered<Config>, LoadsApart<Config>>::Type;
  using Passes =
      typename Select<Shape::kIsStaggered, PassesStaggered<Config>, PassesApart<Config>>::Type;
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
      [&] {
        Loads{{tma, shared}}.run();
      },
      [&](int group) {
        Passes{{tma, shared, group}}.run();
      });
  // No block ends while copies and releases of other blocks may still come to it.
  if constexpr (Shape::kCluster > 1) cluster_barrier();
}

}  // namespace lssar_device
