// Two passes over the keys, by TMA, wgmma and warps with roles.
//
// Forward of LSSA and LSSAR for sm_90a: the two passes of forward.cuh.
//
//   pass 1:  R_i = sum_j softplus(S_ij),  largest score  ->  m_i = max_j U_ij
//   pass 2:  u_ij = U_ij / m_i,  w_ij = u_ij^p,  o_i = sum_j w_ij v_j / sum_j w_ij
//   training also:  X_i = (sum_j u_ij^(p-1) v_j - T_i o_i) / (m_i zs_i),  T_i = sum_j u_ij^(p-1)
//
// Warp group 0 is the producer. One of its lanes loads the query tiles, and loads key and value
// tiles into a ring of stages in the order of use (tile/tma_ring.cuh). Every other warp group is a
// consumer and owns 64 of the kBlockRows queries, 16 per warp.
//
// With kIsPersistent a block works on one query tile after another. Tiles are assigned round-robin
// or, with kTakesTickets, the producer draws them (tile/tickets.cuh) and passes the number to the
// consumers together with the queries.
//
// kOverlap: the score products of the next tile overlap the arithmetic of this tile. In pass 2 they
// also run together with the product of the last tile's weights and values. kPingPong: consumers
// start products one by one, so that the arithmetic of one overlaps the products of the other.
//
// Each variation has a file of its own:
//   kStagger > 1         hopper_forward_staggered.cuh (1: hopper_forward_passes.cuh)
//   kQueriesInRegisters  hopper_forward_operands.cuh
//   kWeightsInShared     hopper_forward_operands.cuh
//   kStoresByTma         hopper_forward_output.cuh
//   kPackGqa             hopper_forward_packed.cuh
//   kSkipTiles           hopper_forward_skipping.cuh
//   kHasWindow           hopper_forward_window.cuh (kHasLengths: kernels/tma_sequences.cuh too)
//   kCluster > 1         tile/cluster_tiles.cuh
//
// Shared memory: query tiles (two if passes are staggered); weights with kWeightsInShared;
// kForwardStages stages of a key or value tile; the reciprocal key norms of each stage; barriers of
// the ring and of the query tiles; the numbers of work tiles with kTakesTickets. Named barriers:
// tile/consumer_barriers.cuh.
#pragma once

#include "templates/kernels/hopper_forward_passes.cuh"
#include "templates/kernels/hopper_forward_staggered.cuh"
#include "templates/kernels/tma_sequences.cuh"
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
  if constexpr (Config::kHasLengths)
    clear_norms<Shape::kThreads>(shared.norms(0), Shape::kStages * Shape::kNormBytes);
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
  // A block must not end while other blocks may still send it copies and releases.
  if constexpr (Shape::kCluster > 1) cluster_barrier();
}

}  // namespace lssar_device
