// A block's shared memory, and its tensor maps.
//
// See hopper_forward.cuh.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

template <class Config>
struct HopperForwardShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kForwardBlockRows;
  static constexpr int kScoreCols = Config::kScoreCols;  // keys of a tile in pass 1
  static constexpr int kBlockCols = Config::kForwardBlockCols;
  static constexpr int kBlockDv = Config::kBlockDv;
  static constexpr int kStages = Config::kForwardStages;
  static constexpr int kNumConsumers = kBlockRows / kWarpGroupRows;
  static constexpr int kThreads = (1 + kNumConsumers) * kWarpGroupThreads;
  static constexpr int kCluster = Config::kCluster;  // blocks that share key and value tiles
  static constexpr int kWorkRows = kCluster * kBlockRows;
  using QueryTiles = lssar_device::QueryTiles<Config, kWarpGroupRows>;  // per consumer
  static constexpr bool kIsStaggered = Config::kStagger > 1;
  static constexpr int kQueryStages = kIsStaggered ? 2 : 1;
  static constexpr int kNumDvBlocks = (Config::kHeadDimV + kBlockDv - 1) / kBlockDv;

  using QueryTile = SwizzledTile<Element, kBlockRows, Config::kHeadDim>;
  using ScoreKeyTile = SwizzledTile<Element, kScoreCols, Config::kHeadDim>;
  using KeyTile = SwizzledTile<Element, kBlockCols, Config::kHeadDim>;
  using ValueTile = SwizzledTile<Element, kBlockCols, kBlockDv>;
  using WeightTile = SwizzledTile<Element, kBlockRows, kBlockCols>;  // kWeightsInShared
  using OutputTile = SwizzledTile<Element, kBlockRows, kBlockDv>;    // in the query tile's place

  static constexpr int kKeyBytes =
      ScoreKeyTile::kBytes > KeyTile::kBytes ? ScoreKeyTile::kBytes : KeyTile::kBytes;
  static constexpr int kStageBytes = kKeyBytes > ValueTile::kBytes ? kKeyBytes : ValueTile::kBytes;
  static constexpr int kNormAlignment = 128;  // of a TMA box
  static constexpr int kMaxCols = kScoreCols > kBlockCols ? kScoreCols : kBlockCols;
  static constexpr int kNormBytes =
      (kMaxCols * 4 + kNormAlignment - 1) / kNormAlignment * kNormAlignment;

  static constexpr int kWeightTiles = !Config::kWeightsInShared ? 0 : Config::kNeedsX ? 2 : 1;
  static constexpr int kWeightsOffset = kQueryStages * QueryTile::kBytes;
  static constexpr int kStagesOffset = kWeightsOffset + kWeightTiles * WeightTile::kBytes;
  static constexpr int kNormsOffset = kStagesOffset + kStages * kStageBytes;
  static constexpr int kRingOffset = kNormsOffset + kStages * kNormBytes;
  static constexpr int kQueryBarriersOffset = kRingOffset + RingBarriers<kStages>::kBytes;
  static constexpr int kWorkIndexOffset = kQueryBarriersOffset + RingBarriers<kQueryStages>::kBytes;
  static constexpr int kWorkIndicesBytes = Config::kTakesTickets ? kWorkIndexBytes : 0;
  static constexpr int kSharedBytes = kWorkIndexOffset + kWorkIndicesBytes;

  // Arrivals that free a stage: one from each consumer warp of every block in the cluster.
  //
  // All warps read norms.
  static constexpr int kReleases = kCluster * 4 * kNumConsumers;

  static_assert(kBlockRows % kWarpGroupRows == 0, "a consumer owns 64 queries");
  static_assert(kScoreCols % 8 == 0 && kScoreCols <= 256, "pass 1: columns of one wgmma");
  static_assert(kBlockCols % 16 == 0 && kBlockCols <= 256,
                "keys are the depth of a wgmma in pass 2");
  static_assert(kBlockDv % 8 == 0 && kBlockDv <= 256, "value columns of one wgmma");
  static_assert(!Config::kStoresByTma || OutputTile::kBytes <= QueryTile::kBytes,
                "o goes through the query tile");
  static_assert(!kIsStaggered || (kScoreCols == kBlockCols && kNumDvBlocks == 1 && kCluster == 1 &&
                                  Config::kOverlap && !Config::kQueriesInRegisters),
                "both passes take a tile of keys in one sweep");
  static_assert(!Config::kTakesTickets || (Config::kIsPersistent && kCluster == 1),
                "blocks draw tickets each for itself");
  static_assert(kStages >= 2, "a key tile and the value tile before it are in use together");
};

// The order of TmaParams::maps.
enum ForwardMap {
  kQueryMap,
  kScoreKeyMap,
  kKeyMap,
  kValueMap,
  kScoreNormMap,
  kNormMap,
  kOutputMap,  // kStoresByTma
};
template <class Config>
inline constexpr int kNumForwardMaps = kOutputMap + (Config::kStoresByTma ? 1 : 0);

// Addresses in shared memory.
template <class Config>
struct ForwardShared {
  using Shape = HopperForwardShape<Config>;

  u32 base;

  LSSAR_DEVICE typename Shape::QueryTile queries(int stage = 0) const {
    return {base + stage * Shape::QueryTile::kBytes};
  }
  LSSAR_DEVICE u32 stage(int stage) const {
    return base + Shape::kStagesOffset + stage * Shape::kStageBytes;
  }
  // 0: the weights; 1: u^(p-1), for X.
  LSSAR_DEVICE typename Shape::WeightTile weights(int which) const {
    return {base + Shape::kWeightsOffset + which * Shape::WeightTile::kBytes};
  }
  LSSAR_DEVICE typename Shape::OutputTile output(int stage) const { return {queries(stage).base}; }
  LSSAR_DEVICE u32 norms(int stage) const {
    return base + Shape::kNormsOffset + stage * Shape::kNormBytes;
  }
  LSSAR_DEVICE RingBarriers<Shape::kStages> ring() const { return {base + Shape::kRingOffset}; }
  LSSAR_DEVICE RingBarriers<Shape::kQueryStages> query_ring() const {
    return {base + Shape::kQueryBarriersOffset};
  }
  // The number of the chain whose queries are in the stage.
  //
  // The producer writes it before the queries' barrier completes. Consumers read it before they
  // release the queries.
  LSSAR_DEVICE u32 work_index(int stage) const {
    return base + Shape::kWorkIndexOffset + stage * 4;
  }
};

}  // namespace lssar_device
